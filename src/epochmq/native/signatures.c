/* The signatures of sends, as auth/signature.py and auth/connection_signature.py define them.
 *
 * This code only accepts. What it does not accept, Python checks again, refuses and logs. It knows the users and
 * topics that Python has checked before: a grant for each user, topic and place.
 */
#include "signatures.h"

const int64_t epq_sizeof_access_front = (int64_t)offsetof(access, grants_used);

static const char OWN_MAGIC[] = "EMQSIGN1";

/* The memory that an access needs for headers of `header_max` bytes. */
int64_t epq_access_bytes(int64_t header_max)
{
    return (int64_t)sizeof(access) + header_max + CONTENT_MORE;
}

/* Forget all grants and keys. */
void epq_access_clear(access *a)
{
    memset(a->table, 0, sizeof a->table);
    memset(a->signers, 0, sizeof a->signers);
    a->grants_used = a->signers_used = a->last_grant = 0;
}

/* The state of `h` after a block of `key`, each byte combined with `pad`. */
static void begin_with(const hash *h, hash_state *state, const uint8_t *key, uint8_t pad)
{
    uint8_t block[HASH_BLOCK];
    for (int n = 0; n < HASH_BLOCK; n++)
        block[n] = key[n] ^ pad;
    h->init(state->bytes);
    h->update(state->bytes, block, HASH_BLOCK);
}

/* Add a user with its keys, each padded to a block; its number, -1 when there is no room. */
int64_t epq_access_add_signer(access *a, const uint8_t *sha1_key, const uint8_t *sha256_key)
{
    if (a->signers_used == SIGNERS)
        return -1;
    signer *s = a->signers + a->signers_used;
    for (int outer = 0; outer < 2; outer++) {
        const uint8_t pad = outer ? 0x5C : 0x36;
        begin_with(&a->sha1, s->sha1 + outer, sha1_key, pad);
        begin_with(&a->sha256, s->sha256 + outer, sha256_key, pad);
    }
    return a->signers_used++;
}

static uint32_t place_in_table(span text) { return hash_utf8(0, text) % GRANT_TABLE; }

static int has_text(const grant *g, span text)
{
    return g->size == text.size && !memcmp(g->text, text.at, (size_t)text.size);
}

/* The grant with this text; NULL for none. Most requests need the same one as the request before. */
static grant *find_grant(access *a, span text)
{
    if (a->last_grant && has_text(a->grants + a->last_grant - 1, text))
        return a->grants + a->last_grant - 1;
    uint32_t at = place_in_table(text);
    for (; a->table[at]; at = (at + 1) % GRANT_TABLE) {
        if (has_text(a->grants + a->table[at] - 1, text)) {
            a->last_grant = a->table[at];
            return a->grants + a->last_grant - 1;
        }
    }
    return NULL;
}

/* Let a user send to a topic from a place: `text` as in `grant`. 0 when there is no room. */
int64_t epq_access_grant(access *a, int64_t signer_number, const uint8_t *at, int64_t size)
{
    span text = {at, size};
    if (size < 1 || size > GRANT_MAX || signer_number < 0 || signer_number >= a->signers_used)
        return 0;
    if (find_grant(a, text))
        return 1;
    if (a->grants_used == GRANTS)
        return 0;
    grant *g = a->grants + a->grants_used++;
    g->signer = (int32_t)signer_number;
    g->size = (int32_t)size;
    memcpy(g->text, at, (size_t)size);
    uint32_t slot = place_in_table(text);
    while (a->table[slot])
        slot = (slot + 1) % GRANT_TABLE;
    a->table[slot] = (uint16_t)a->grants_used;
    return 1;
}

static int is_text(span text, const char *other)
{
    return text.size == (int64_t)strlen(other) && !memcmp(text.at, other, (size_t)text.size);
}

static int is_after(span one, span other)
{
    if (one.size && other.size && one.at[0] != other.at[0])
        return one.at[0] > other.at[0];
    int64_t size = one.size < other.size ? one.size : other.size;
    int found = memcmp(one.at, other.at, (size_t)size);
    return found ? found > 0 : one.size > other.size;
}

/* The fields in the order of their names; 0 when a name is there twice. Most requests have the fields of the
 * request before in the same places, so its order is the first guess. */
static int sort_fields(access *a, const request *r, const field **sorted)
{
    const int guess = a->order_count == r->fields_count;
    for (int n = 0; n < r->fields_count; n++) {
        int at = n;
        const field *f = r->fields + (guess ? a->order[n] : n);
        for (; at && is_after(sorted[at - 1]->name, f->name); at--)
            sorted[at] = sorted[at - 1];
        if (at && sorted[at - 1]->name.size == f->name.size &&
            !memcmp(sorted[at - 1]->name.at, f->name.at, (size_t)f->name.size))
            return 0;
        sorted[at] = f;
    }
    for (int n = 0; n < r->fields_count; n++)
        a->order[n] = (uint8_t)(sorted[n] - r->fields);
    a->order_count = r->fields_count;
    return 1;
}

static uint8_t *put_value(uint8_t *to, const field *f)
{
    return f->escaped ? to + json_unescape(f->value, to) : copy(to, f->value.at, f->value.size);
}

/* What RocketMQ's signature covers, without the body; NULL when it is not for us. */
static uint8_t *put_values(uint8_t *to, const request *r, const field **sorted)
{
    for (int n = 0; n < r->fields_count; n++) {
        if (sorted[n]->name.size > 1 && is_text(sorted[n]->name, "_UNIQUE_KEY_QUERY"))
            return NULL; /* old clients leave it out */
        if (sorted[n]->name.size == 1 || !is_text(sorted[n]->name, "Signature"))
            to = put_value(to, sorted[n]);
    }
    return to;
}

/* What a signature for this connection covers, without the body. */
static uint8_t *put_covered(uint8_t *to, const access *a, const request *r, const field **sorted)
{
    to = copy(to, (const uint8_t *)OWN_MAGIC, sizeof OWN_MAGIC - 1);
    to = copy(to, a->nonce, NONCE_BYTES);
    put32(to, (uint32_t)r->head.code);
    put32(to + 4, (uint32_t)r->head.opaque);
    put32(to + 8, (uint32_t)r->head.flag);
    to += 12;
    for (int n = 0; n < r->fields_count; n++) {
        const field *f = sorted[n];
        if (f->name.size > 1 && is_text(f->name, "ConnectionSignature"))
            continue;
        uint8_t *sizes = to, *value = copy(to + 8, f->name.at, f->name.size);
        to = put_value(value, f);
        put32(sizes, (uint32_t)f->name.size);
        put32(sizes + 4, (uint32_t)(to - value));
    }
    return to;
}

/* `size` bytes in Base64 at `to`; how many characters. */
static int64_t put_base64(uint8_t *to, const uint8_t *at, int64_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *begin = to;
    for (; size > 0; at += 3, size -= 3) {
        uint32_t bits = (uint32_t)at[0] << 16;
        bits |= size > 1 ? (uint32_t)at[1] << 8 : 0;
        bits |= size > 2 ? (uint32_t)at[2] : 0;
        *to++ = (uint8_t)digits[bits >> 18];
        *to++ = (uint8_t)digits[bits >> 12 & 63];
        *to++ = size > 1 ? (uint8_t)digits[bits >> 6 & 63] : '=';
        *to++ = size > 2 ? (uint8_t)digits[bits & 63] : '=';
    }
    return to - begin;
}

/* Whether `given` is the HMAC of content and body in Base64; the time does not depend on where it differs. */
static int has_hmac(const hash *h, const hash_state *states, int64_t digest_size, span content,
                    span body, const field *given)
{
    uint8_t digest[SHA256_BYTES], text[48], value[48];
    hash_state state = states[0];
    h->update(state.bytes, content.at, (size_t)content.size);
    h->update(state.bytes, body.at, (size_t)body.size);
    h->final(digest, state.bytes);
    state = states[1];
    h->update(state.bytes, digest, (size_t)digest_size);
    h->final(digest, state.bytes);
    const int64_t size = put_base64(text, digest, digest_size);
    if (given->value.size > (given->escaped ? 6 : 1) * size || given->value.size < size)
        return 0;
    if (given->escaped && given->value.size > (int64_t)sizeof value)
        return 0; /* Python's to read */
    if (put_value(value, given) - value != size)
        return 0;
    uint8_t differs = 0;
    for (int64_t n = 0; n < size; n++)
        differs |= (uint8_t)(text[n] ^ value[n]);
    return !differs;
}

static int is_in_time(const access *a, const field *signed_ms)
{
    int64_t ms;
    if (!signed_ms || signed_ms->escaped || signed_ms->value.size > 18 ||
        !json_text_int(signed_ms->value, 0, INT64_MAX, &ms))
        return 0;
    const int64_t delay = a->age - ms;
    return (delay < 0 ? -delay : delay) <= a->delay_max;
}

/* Whether a send is signed by a user who may send to its topic; `note_opaque` follows once it is stored. */
int may_send(access *a, const request *r, span body)
{
    const field *sorted[FIELDS_MAX], *user = NULL, *own = NULL, *old = NULL, *signed_ms = NULL;
    if (r->fields_count > FIELDS_MAX || !sort_fields(a, r, sorted))
        return 0;
    for (int n = 0; n < r->fields_count; n++) {
        const field *f = sorted[n];
        if (f->name.size < 2)
            continue; /* one of the send's own */
        if (is_text(f->name, "AccessKey"))
            user = f;
        else if (is_text(f->name, "ConnectionSignature"))
            own = f;
        else if (is_text(f->name, "Signature"))
            old = f;
        else if (is_text(f->name, "SignedMs"))
            signed_ms = f;
    }
    if (!user || user->escaped ||
        user->value.size + r->topic.size + a->place.size + 2 > (int64_t)GRANT_MAX)
        return 0;
    uint8_t *to = copy(a->content, user->value.at, user->value.size);
    *to++ = 0;
    to = copy(to, r->topic.at, r->topic.size);
    *to++ = 0;
    to = copy(to, a->place.at, a->place.size);
    span text = {a->content, to - a->content};
    const grant *g = find_grant(a, text);
    if (!g)
        return 0;
    const signer *s = a->signers + g->signer;
    if (own) {
        const int64_t ahead = (r->head.opaque - a->last_opaque) & 0x7FFFFFFF;
        if (!a->nonce || ahead == 0 || ahead >= 1 << 30 || !is_in_time(a, signed_ms))
            return 0;
        span content = {a->content, put_covered(a->content, a, r, sorted) - a->content};
        return has_hmac(&a->sha256, s->sha256, SHA256_BYTES, content, body, own);
    }
    if (!old || a->own_only || !(to = put_values(a->content, r, sorted)))
        return 0;
    span content = {a->content, to - a->content};
    return has_hmac(&a->sha1, s->sha1, SHA1_BYTES, content, body, old);
}

/* Note that a request with a signature for this connection was accepted. */
void note_opaque(access *a, const request *r)
{
    for (int n = 0; n < r->fields_count; n++)
        if (is_text(r->fields[n].name, "ConnectionSignature"))
            a->last_opaque = r->head.opaque;
}
