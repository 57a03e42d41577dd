// Launches the functions of a generated source on operands from a file, and writes results to another.
//
// Words of 8 bytes. In: cases; of each: seed, late copies, side, buffers, arguments, bytes of scratch, phases; of each buffer
// its bytes and their content; the arguments; of each phase tasks, threads, bytes of shared memory. Out, per case: the
// fault word, the count, the content of each buffer. A buffer ends at, or begins after, memory that cannot be touched.
#include <sys/mman.h>

static FILE* input;
static FILE* output;
static uint64_t word() {
    uint64_t x;
    if (fread(&x, 8, 1, input) != 1) give_up("the input ends early");
    return x;
}

struct Buffer { unsigned char* at; size_t bytes; };

// Memory between pages that cannot be touched, at the end of its pages or at their start.
static Buffer guarded(size_t bytes, bool at_start) {
    size_t page = 4096, pages = (bytes + page - 1) / page + 2;
    unsigned char* all = (unsigned char*)mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) give_up("no memory");
    mprotect(all, page, PROT_NONE);
    mprotect(all + (pages - 1) * page, page, PROT_NONE);
    unsigned char* start = all + page;
    if (!at_start) start += (pages - 2) * page - bytes;
    memset(all + page, 0xff, (pages - 2) * page);
    return Buffer{start, bytes};
}

typedef void (*Function)(const kiln_params);
static Function function;
static void call(const void* parameter) { function(*(const kiln_params*)parameter); }

static int run_cases(const Function* functions, int argc, char** argv) {
    if (argc != 3 || !(input = fopen(argv[1], "rb")) || !(output = fopen(argv[2], "wb"))) give_up("usage: IN OUT");
    uint64_t cases = word();
    while (cases-- > 0) {
        host.random = word() * 2 + 1;
        host.late_copies = word() != 0;
        bool at_start = word() != 0;
        counted = 0;
        uint64_t n_buffers = word(), n_arguments = word(), scratch_bytes = word(), n_phases = word();
        std::vector<Buffer> buffers;
        for (uint64_t i = 0; i < n_buffers; ++i) {
            buffers.push_back(guarded(word(), at_start));
            Buffer& buffer = buffers.back();
            if (buffer.bytes && fread(buffer.at, buffer.bytes, 1, input) != 1) give_up("the input ends early");
        }
        kiln_params p;
        uint64_t fault = ~0ull;
        size_t at = 0;
        for (const Buffer& buffer : buffers) p.w[at++] = (uint64_t)buffer.at;
        for (uint64_t i = 0; i < n_arguments; ++i) p.w[at++] = word();
        Buffer scratch = guarded((scratch_bytes + 15) / 16 * 16, false);
        p.w[at++] = (uint64_t)scratch.at;
        p.w[at++] = (uint64_t)&fault;
        p.w[at++] = 7;
        size_t tasks_at = at++;
        p.w[at++] = 0;
        if (at != sizeof p.w / 8) give_up("the parameter has another number of words");
        for (uint64_t phase = 0; phase < n_phases; ++phase) {
            uint64_t tasks = word(), threads = word(), shared = word();
            if (shared > sizeof k_shared || threads > 1024) give_up("a block that is too large");
            p.w[tasks_at] = tasks;
            function = functions[phase];
            host.body = call;
            host.parameter = &p;
            // Fewer blocks than tasks now and then.
            host.blocks = (unsigned)(tasks > 3 && next_random() % 2 ? tasks / 2 : tasks);
            for (unsigned block = 0; block < host.blocks; ++block) {
                host.block = host.blocks - 1 - block;
                run_block((int)threads);
            }
        }
        fwrite(&fault, 8, 1, output);
        fwrite(&counted, 8, 1, output);
        for (const Buffer& buffer : buffers)
            if (buffer.bytes) fwrite(buffer.at, buffer.bytes, 1, output);
        for (const Buffer& buffer : buffers) munmap((void*)((uintptr_t)buffer.at / 4096 * 4096), (buffer.bytes + 4095) / 4096 * 4096);
        munmap((void*)((uintptr_t)scratch.at / 4096 * 4096), (scratch.bytes + 4095) / 4096 * 4096);
    }
    return fclose(output) == 0 ? 0 : 3;
}
