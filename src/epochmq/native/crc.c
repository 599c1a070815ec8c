/* CRC-32 (IEEE), by carry-less multiplication where the processor has it, else by tables. */
#include "native.h"

static uint32_t table[8][256];
static int folds;

/* Eight bytes a step by eight tables; `crc` is the running, inverted value. */
static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
              table[4][low >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
              table[0][at[7]];
    }
    for (; size > 0; at++, size--)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xFF];
    return crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>

/* The folding constants are x^n mod P, bit-reflected, for the distances 512+64, 512, 128+64, 128 and
 * 64 bits, then P and its inverse for the Barrett step (Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ", 2009). `size` is a multiple of 16 and at least 64. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t by_folding(uint32_t crc, const uint8_t *at,
                                                                    size_t size)
{
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low_32 = _mm_setr_epi32(~0, 0, ~0, 0);
    __m128i x[4], low;
    int n;

    for (n = 0; n < 4; n++)
        x[n] = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * n));
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
    for (at += 64, size -= 64; size >= 64; at += 64, size -= 64)
        for (n = 0; n < 4; n++) {
            low = _mm_clmulepi64_si128(x[n], by_512, 0x00);
            x[n] = _mm_clmulepi64_si128(x[n], by_512, 0x11);
            x[n] = _mm_xor_si128(_mm_xor_si128(x[n], low),
                                 _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * n)));
        }
    for (n = 1; n < 4; n++) {
        low = _mm_clmulepi64_si128(x[0], by_128, 0x00);
        x[0] = _mm_clmulepi64_si128(x[0], by_128, 0x11);
        x[0] = _mm_xor_si128(_mm_xor_si128(x[0], low), x[n]);
    }
    for (; size >= 16; at += 16, size -= 16) {
        low = _mm_clmulepi64_si128(x[0], by_128, 0x00);
        x[0] = _mm_clmulepi64_si128(x[0], by_128, 0x11);
        x[0] = _mm_xor_si128(_mm_xor_si128(x[0], low),
                             _mm_loadu_si128((const __m128i *)(const void *)at));
    }
    /* 128 bits to 64, then by Barrett's reduction to 32. */
    low = _mm_clmulepi64_si128(x[0], by_128, 0x10);
    x[0] = _mm_xor_si128(_mm_srli_si128(x[0], 8), low);
    low = _mm_srli_si128(x[0], 4);
    x[0] = _mm_clmulepi64_si128(_mm_and_si128(x[0], low_32), by_64, 0x00);
    x[0] = _mm_xor_si128(x[0], low);
    low = _mm_clmulepi64_si128(_mm_and_si128(x[0], low_32), barrett, 0x10);
    low = _mm_clmulepi64_si128(_mm_and_si128(low, low_32), barrett, 0x00);
    x[0] = _mm_xor_si128(x[0], low);
    return (uint32_t)_mm_extract_epi32(x[0], 1);
}

static int can_fold(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static uint32_t by_folding(uint32_t crc, const uint8_t *at, size_t size)
{
    return by_table(crc, at, size);
}

static int can_fold(void) { return 0; }
#endif

void crc_init(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
        table[0][byte] = crc;
    }
    for (int n = 1; n < 8; n++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[n][byte] = table[n - 1][byte] >> 8 ^ table[0][table[n - 1][byte] & 0xFF];
    folds = can_fold();
}

uint32_t crc_of(const uint8_t *at, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    if (folds && size >= 64) {
        size_t whole = size & ~(size_t)15;
        crc = by_folding(crc, at, whole);
        at += whole;
        size -= whole;
    }
    return ~by_table(crc, at, size) & 0x7FFFFFFFu;
}
