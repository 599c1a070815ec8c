/* The layout of a stored record, the only declaration in C. tests/native/test_record_layout.py compares it
 * with model/record.py, which describes the fields.
 *
 * Offsets are bytes from the start of the record. Behind BORN_HOST_AT they hold with IPv4 hosts; an IPv6 host
 * takes V6_MORE bytes more.
 */
#ifndef EPOCHMQ_RECORD_LAYOUT_H
#define EPOCHMQ_RECORD_LAYOUT_H

#define MAGIC_V1 0xDAA320A7u /* the length of the topic has one byte */
#define MAGIC_V2 0xDAA320ABu /* it has two bytes */

enum {
    SIZE_AT = 0,
    MAGIC_AT = 4,
    CRC_AT = 8,
    QUEUE_ID_AT = 12,
    FLAG_AT = 16,
    QUEUE_OFFSET_AT = 20,
    OFFSET_AT = 28,
    SYS_FLAG_AT = 36,
    BORN_TIME_AT = 40,
    BORN_HOST_AT = 48,
    STORE_TIME_AT = 56,
    STORE_HOST_AT = 64,
    RECONSUME_AT = 72,
    PREPARED_AT = 76,
    BODY_SIZE_AT = 84,
    RECORD_HEAD = 88,  /* the body begins here */
    RECORD_LEAST = 91, /* the smallest record: no body, no topic, no properties */
    V6_MORE = 12       /* bytes that an IPv6 host takes more than an IPv4 host */
};

/* Bits of sys_flag. */
enum {
    TX_PREPARED = 0x4,
    TX_COMMIT = 0x8,
    TX_ROLLBACK = 0xC,
    TX_BITS = 0xC,
    BORN_V6 = 0x10,
    STORE_V6 = 0x20,
    V6_HOSTS = 0x30
};

#endif
