/* Launches one kernel repeatedly: sizes and operands from standard input, operands and the fault word to standard
 * output. All numbers are little-endian words of 64 bits. `phases.h` is generated and names the kernel's phases.
 *
 * Tasks run one by one, the last first. An operand has the misalignment that the input gives, between guard bytes that must
 * not change: exit status 3 means that they did, 2 that the input is truncated.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct launch {
    uint8_t **buffers;
    int64_t *sizes;
    uint8_t *shared;
    uint32_t *fault;
    const uint32_t *stop;
};

typedef void phase(const struct launch *launch, uint8_t *scratch, uint64_t first, uint64_t last);

#include "phases.h"

enum { GUARD = 64, POISON = 0xa5 };

struct operand {
    uint8_t *memory;
    uint64_t bytes;
    uint64_t shift;
};

static void read_all(void *to, uint64_t bytes) {
    if (bytes > 0 && fread(to, 1, bytes, stdin) != bytes) exit(2);
}

static uint64_t word(void) {
    uint64_t word;
    read_all(&word, sizeof word);
    return word;
}

static uint8_t *poisoned(uint64_t bytes) {
    uint8_t *memory = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
    if (memory == NULL) exit(2);
    memset(memory, POISON, bytes + 64);
    return memory;
}

static void guarded(const uint8_t *memory, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at++) {
        if (memory[at] != POISON) exit(3);
    }
}

static void call(uint64_t n_buffers) {
    struct operand *operands = calloc(n_buffers + 1, sizeof *operands);
    uint8_t **buffers = calloc(n_buffers + 1, sizeof *buffers);
    for (uint64_t at = 0; at < n_buffers; at++) {
        uint64_t bytes = word(), shift = word();
        operands[at] = (struct operand){poisoned(bytes + shift + 2 * GUARD), bytes, shift};
        buffers[at] = operands[at].memory + GUARD + shift;
        read_all(buffers[at], bytes);
    }
    uint64_t n_sizes = word();
    int64_t *sizes = calloc(n_sizes + 1, sizeof *sizes);
    read_all(sizes, n_sizes * sizeof *sizes);
    uint8_t *shared = poisoned(word());
    uint32_t fault = 0, stop = 0;
    struct launch launch = {buffers, sizes, shared, &fault, &stop};
    for (uint64_t number = 0; number < sizeof phases / sizeof *phases; number++) {
        uint64_t tasks = word();
        uint8_t *scratch = poisoned(word());
        for (uint64_t task = tasks; task-- > 0;) phases[number](&launch, scratch, task, task + 1);
        free(scratch);
    }
    uint64_t reported = fault;
    fwrite(&reported, sizeof reported, 1, stdout);
    for (uint64_t at = 0; at < n_buffers; at++) {
        struct operand *operand = &operands[at];
        guarded(operand->memory, GUARD + operand->shift);
        guarded(buffers[at] + operand->bytes, GUARD);
        fwrite(buffers[at], 1, operand->bytes, stdout);
        free(operand->memory);
    }
    free(shared);
    free(sizes);
    free(buffers);
    free(operands);
}

int main(void) {
    uint64_t n_buffers;
    while (fread(&n_buffers, sizeof n_buffers, 1, stdin) == 1) call(n_buffers);
    return 0;
}
