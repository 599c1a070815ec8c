/* Checks the signatures of sends: what signatures.c and send.c share. */
#ifndef EPOCHMQ_SIGNATURES_H
#define EPOCHMQ_SIGNATURES_H

#include "send_turn.h"

enum { GRANTS = 4096, GRANT_TABLE = 16384, GRANT_MAX = 400, SIGNERS = 256 };
enum { HASH_STATE = 128, HASH_BLOCK = 64, NONCE_BYTES = 32, SHA1_BYTES = 20, SHA256_BYTES = 32 };

/* The functions of libcrypto: SHA1_Update and so on. */
typedef int (*hash_init)(void *state);
typedef int (*hash_update)(void *state, const void *data, size_t size);
typedef int (*hash_final)(uint8_t *digest, void *state);

typedef struct {
    hash_init init;
    hash_update update;
    hash_final final;
} hash;

/* The state of a hash in the middle of its work. */
typedef struct {
    _Alignas(16) uint8_t bytes[HASH_STATE];
} hash_state;

/* A user's keys: the states of the inner and the outer hash of both HMACs after the padded key. */
typedef struct {
    hash_state sha1[2], sha256[2];
} signer;

/* What a user may do: send to one topic from one place. */
typedef struct {
    int32_t signer;
    int32_t size;
    uint8_t text[GRANT_MAX]; /* user, 0, topic, 0, place */
} grant;

/* Mirrored by native_signatures.py, up to `sha256`. */
typedef struct {
    span place;          /* of the session: its address, and whether it is encrypted */
    const uint8_t *nonce; /* of the session's challenge; NULL for none */
    int64_t last_opaque; /* of the last accepted signature of the session; written here */
    int64_t age;         /* of the challenge, ms */
    int64_t delay_max;   /* how long a request may be under way, ms */
    int64_t own_only;    /* refuse RocketMQ's signatures */
    hash sha1, sha256;
    int64_t grants_used, signers_used;
    int64_t last_grant;            /* number of the grant that was found last + 1 */
    int64_t order_count;           /* fields of the last request, and the order of their names */
    uint8_t order[FIELDS_MAX];
    uint16_t table[GRANT_TABLE]; /* number of a grant + 1, by hash of its text */
    grant grants[GRANTS];
    signer signers[SIGNERS];
    _Alignas(16) uint8_t content[]; /* of the request that is checked; the header's limit and CONTENT_MORE */
} access;

/* A signature covers this much beside the texts of the fields. */
enum { CONTENT_MORE = 8 + NONCE_BYTES + 12 + FIELDS_MAX * 8 };

int may_send(access *a, const request *r, span body);
void note_opaque(access *a, const request *r);

#endif
