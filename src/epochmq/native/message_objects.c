/* Makes Python's messages of the records in the answer to a pull, like decode_all in model/record.py, and bytes
 * of records in the log.
 *
 * The only part of the native code that makes objects. It uses functions of Python's stable ABI, declared here:
 * the build has no Python headers. The caller holds the interpreter's lock (ctypes.PyDLL).
 *
 * It stops before the first record that is incomplete or damaged; Python examines that record.
 */
#include "neighbours.h"

typedef struct _object PyObject;
typedef ptrdiff_t Py_ssize_t;

/* Part of the stable ABI since Python 3.11. */
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

extern int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
extern void PyBuffer_Release(Py_buffer *view);
extern void Py_IncRef(PyObject *object);
extern void Py_DecRef(PyObject *object);
extern PyObject *PyBytes_FromStringAndSize(const char *at, Py_ssize_t size);
extern char *PyBytes_AsString(PyObject *bytes);
extern PyObject *PyUnicode_DecodeUTF8(const char *at, Py_ssize_t size, const char *errors);
extern PyObject *PyLong_FromLongLong(long long value);
extern PyObject *PyDict_New(void);
extern int PyDict_SetItem(PyObject *dict, PyObject *key, PyObject *value);
extern PyObject *PyList_New(Py_ssize_t size);
extern int PyList_Append(PyObject *list, PyObject *item);
extern PyObject *PyTuple_New(Py_ssize_t size);
extern int PyTuple_SetItem(PyObject *tuple, Py_ssize_t at, PyObject *item); /* takes over `item` */
extern PyObject *PyObject_Call(PyObject *call, PyObject *args, PyObject *named);
extern PyObject *PyObject_CallFunctionObjArgs(PyObject *call, ...);

enum { SIMPLE = 0 /* PyBUF_SIMPLE */, FIELDS = 16 };

/* The object for the last bytes of one kind: topic and hosts seldom change from record to record. */
typedef struct {
    span text;
    PyObject *object;
} last_object;

/* Where the parts of one record are. */
typedef struct {
    int64_t size;
    span body, topic, text, born_host, store_host;
    const uint8_t *store_time;
    const uint8_t *rest; /* reconsume times, prepared offset, size of the body */
} parts;

static PyObject *text_of(span text)
{
    return PyUnicode_DecodeUTF8((const char *)text.at, text.size, "replace");
}

static PyObject *number_of(int64_t value) { return PyLong_FromLongLong(value); }

static int find_parts(const uint8_t *at, int64_t left, parts *found)
{
    if (left < RECORD_LEAST)
        return 0;
    int64_t size = get32(at);
    uint32_t magic = get32(at + MAGIC_AT), flags = get32(at + SYS_FLAG_AT);
    int64_t born = flags & BORN_V6 ? 8 + V6_MORE : 8, store = flags & STORE_V6 ? 8 + V6_MORE : 8;
    int64_t head = RECORD_HEAD - 16 + born + store;
    if ((magic != MAGIC_V1 && magic != MAGIC_V2) || size > left || size < head + 3)
        return 0;
    int64_t body_end = head + get32(at + head - 4);
    if (body_end + 3 > size)
        return 0;
    int64_t topic_at = body_end + (magic == MAGIC_V1 ? 1 : 2);
    int64_t topic_end = topic_at + (magic == MAGIC_V1 ? at[body_end] : get16(at + body_end));
    if (topic_end + 2 > size || topic_end + 2 + get16(at + topic_end) != size)
        return 0;
    found->size = size;
    found->body = (span){at + head, body_end - head};
    found->topic = (span){at + topic_at, topic_end - topic_at};
    found->text = (span){at + topic_end + 2, size - topic_end - 2};
    found->born_host = (span){at + BORN_HOST_AT, born};
    found->store_time = at + BORN_HOST_AT + born;
    found->store_host = (span){found->store_time + 8, store};
    found->rest = found->store_host.at + store;
    return 1;
}

/* A new reference to the object for `text`; `host_of` makes it, or it is text if that is NULL. */
static PyObject *cached(last_object *last, span text, PyObject *host_of)
{
    int is_same = last->object && last->text.size == text.size &&
                  memcmp(last->text.at, text.at, (size_t)text.size) == 0;
    if (!is_same) {
        PyObject *made;
        if (host_of) {
            PyObject *raw = PyBytes_FromStringAndSize((const char *)text.at, text.size);
            if (!raw)
                return NULL;
            made = PyObject_CallFunctionObjArgs(host_of, raw, NULL);
            Py_DecRef(raw);
        } else {
            made = text_of(text);
        }
        if (!made)
            return NULL;
        if (last->object)
            Py_DecRef(last->object);
        last->object = made;
        last->text = text;
    }
    Py_IncRef(last->object);
    return last->object;
}

/* Adds one pair; 0 on an error. A pair without a name or without a value is left out. */
static int add_pair(PyObject *dict, span pair)
{
    const uint8_t *end = pair.at + pair.size;
    const uint8_t *split = pair.size ? memchr(pair.at, NAME_END, (size_t)pair.size) : NULL;
    if (!split || split == pair.at || split + 1 == end)
        return 1;
    PyObject *name = text_of((span){pair.at, split - pair.at});
    PyObject *value = text_of((span){split + 1, end - split - 1});
    int is_done = name && value && PyDict_SetItem(dict, name, value) == 0;
    if (name)
        Py_DecRef(name);
    if (value)
        Py_DecRef(value);
    return is_done;
}

static PyObject *pairs_of(span text)
{
    PyObject *dict = PyDict_New();
    const uint8_t *at = text.at, *end = text.at + text.size;
    while (dict && at < end) {
        const uint8_t *stop = memchr(at, PAIR_END, (size_t)(end - at));
        if (!stop)
            stop = end;
        if (!add_pair(dict, (span){at, stop - at})) {
            Py_DecRef(dict);
            return NULL;
        }
        at = stop + 1;
    }
    return dict;
}

/* What the records of one answer share. */
typedef struct {
    PyObject *make;    /* called with the fields of one message */
    PyObject *host_of; /* makes (host, port) of 8 or 20 bytes */
    last_object topic, born_host, store_host;
} making;

static PyObject *message_of(making *all, const uint8_t *at, const parts *found)
{
    PyObject *fields = PyTuple_New(FIELDS);
    if (!fields)
        return NULL;
    PyObject *made[FIELDS] = {
        cached(&all->topic, found->topic, NULL),
        number_of((int32_t)get32(at + QUEUE_ID_AT)),
        number_of(get_i64(at + QUEUE_OFFSET_AT)),
        number_of(get_i64(at + OFFSET_AT)),
        number_of(found->size),
        PyBytes_FromStringAndSize((const char *)found->body.at, found->body.size),
        number_of((int32_t)get32(at + FLAG_AT)),
        number_of((int32_t)get32(at + SYS_FLAG_AT)),
        number_of(get_i64(at + BORN_TIME_AT)),
        cached(&all->born_host, found->born_host, all->host_of),
        number_of(get_i64(found->store_time)),
        cached(&all->store_host, found->store_host, all->host_of),
        number_of((int32_t)get32(found->rest)),
        number_of(get_i64(found->rest + 4)),
        pairs_of(found->text),
        number_of(get32(at + CRC_AT)),
    };
    int is_whole = 1;
    for (int n = 0; n < FIELDS; n++) {
        is_whole &= made[n] != NULL;
        if (made[n])
            PyTuple_SetItem(fields, n, made[n]);
    }
    PyObject *message = is_whole ? PyObject_Call(all->make, fields, NULL) : NULL;
    Py_DecRef(fields);
    return message;
}

/* Returns a list of messages, or NULL with an exception. Where they end in `data` goes to `end`. */
PyObject *epq_messages(PyObject *data, PyObject *make, PyObject *host_of, int64_t *end)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, SIMPLE) != 0)
        return NULL;
    const uint8_t *bytes = view.buf;
    int64_t at = 0;
    making all = {make, host_of, {{0}, NULL}, {{0}, NULL}, {{0}, NULL}};
    parts found;
    PyObject *messages = PyList_New(0);
    while (messages && find_parts(bytes + at, view.len - at, &found)) {
        PyObject *message = message_of(&all, bytes + at, &found);
        int is_added = message && PyList_Append(messages, message) == 0;
        if (message)
            Py_DecRef(message);
        if (!is_added) {
            Py_DecRef(messages);
            messages = NULL;
        }
        at += found.size;
    }
    last_object *kept[] = {&all.topic, &all.born_host, &all.store_host};
    for (int n = 0; n < 3; n++)
        if (kept[n]->object)
            Py_DecRef(kept[n]->object);
    PyBuffer_Release(&view);
    *end = at;
    return messages;
}

/* Finds records as epq_neighbours does. If they are at least `spans_min` spans of at most `bytes_max` bytes on
 * average, returns a bytes object with all of them, one behind the other; otherwise an empty one. NULL with an
 * exception: no memory. */
PyObject *epq_gather(neighbours *n, int64_t spans_min, int64_t bytes_max)
{
    epq_neighbours(n);
    int is_gathered = n->spans_count >= spans_min && n->size <= n->spans_count * bytes_max;
    PyObject *gathered = PyBytes_FromStringAndSize(NULL, is_gathered ? n->size : 0);
    if (!gathered || !is_gathered)
        return gathered;
    uint8_t *to = (uint8_t *)PyBytes_AsString(gathered);
    for (int64_t s = 0; s < n->spans_count; s++)
        to = copy(to, n->bytes + n->spans[2 * s], n->spans[2 * s + 1] - n->spans[2 * s]);
    return gathered;
}

enum { TEXTS = 8, NUMBERS = TEXTS - 1, NEXT = 1, HEAD_MAX = 1024, NUMBER_MAX = 20 };

/* The head of an answer to a pull: a number between two texts, the offset of the next pull at NEXT.
 * Mirrored by store/pull_answers.py. */
typedef struct {
    int64_t numbers[NUMBERS];
    int64_t sizes[TEXTS]; /* HEAD_MAX at most, with the numbers */
    const uint8_t *texts; /* one behind the other */
    int64_t size_max;     /* of the records */
} pull_head;

MIRRORED(pull_head);

/* Puts the head of a frame with a body of `body_size` bytes to `to`. Returns where the body begins. */
static uint8_t *put_head(uint8_t *to, const pull_head *h, int64_t body_size)
{
    uint8_t *begin = to;
    const uint8_t *text = h->texts;
    to += PREFIX;
    for (int n = 0; n < TEXTS; n++) {
        if (n)
            to = put_number(to, h->numbers[n - 1]);
        to = copy(to, text, h->sizes[n]);
        text += h->sizes[n];
    }
    int64_t size = to - begin - PREFIX;
    put32(begin, (uint32_t)(4 + size + body_size));
    put32(begin + 4, (uint32_t)size);
    return to;
}

/* Whether epq_neighbours found all records that the pull gets: all of its units, or as many as there is room for. */
static int has_all(const neighbours *n)
{
    if (!n->records)
        return 0;
    return n->passed == n->count ||
           n->size + (int64_t)get32(n->units + n->passed * UNIT_BYTES + 8) > n->room;
}

/* Finds records as epq_neighbours does. Returns a bytes object with the whole answer to a pull, an empty one if
 * Python must look. NULL with an exception: no memory. */
PyObject *epq_answer_pull(neighbours *n, pull_head *h)
{
    uint8_t head[HEAD_MAX];
    int64_t texts = 0;
    epq_neighbours(n);
    for (int t = 0; t < TEXTS; t++)
        texts += h->sizes[t];
    if (!has_all(n) || n->size > h->size_max || texts > HEAD_MAX - PREFIX - NUMBERS * NUMBER_MAX)
        return PyBytes_FromStringAndSize(NULL, 0);
    h->numbers[NEXT] = n->first + n->passed;
    int64_t head_size = put_head(head, h, n->size) - head;
    PyObject *answer = PyBytes_FromStringAndSize(NULL, head_size + n->size);
    if (!answer)
        return NULL;
    uint8_t *to = copy((uint8_t *)PyBytes_AsString(answer), head, head_size);
    for (int64_t s = 0; s < n->spans_count; s++)
        to = copy(to, n->bytes + n->spans[2 * s], n->spans[2 * s + 1] - n->spans[2 * s]);
    return answer;
}
