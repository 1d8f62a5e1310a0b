/* The plan: what the compiler decided and the runtime executes, as one flat little-endian file.
 *
 * This header is the one definition of the format. A file is a header, a table of sections, and the
 * sections; a section is an array of records of one fixed size, all of them declared below:
 *
 *     0         +---------------------------------------------------------------+
 *               | struct plan_header: magic, version, size, the two hashes      |
 *     80        +---------------------------------------------------------------+
 *               | struct plan_section x n_sections, ascending by kind           |
 *     16-byte   +---------------------------------------------------------------+
 *     aligned,  | STRINGS       (offset, length) into TEXT, ascending bytewise  |
 *     without   | TEXT          the strings, each with a NUL                    |
 *     gaps      | PARAMS        name, dtype, shape, elements                    |
 *               | DIMS          the shapes                                      |
 *               | NAMES         hash table: name -> parameter                   |
 *               | STEPS         schedule, arena, where the error slot is        |
 *               | STEP_PARAMS   class, guard, segment: n_steps x n_params       |
 *               | BUCKETS       by step, in the order of issue                  |
 *               | SEGMENTS      by bucket, in the order of their offsets        |
 *               | GUARDS        a root in GUARD_NODES, the condition in words   |
 *               | GUARD_NODES   decision nodes, children before parents         |
 *               | BRANCHES      the run-time booleans                           |
 *               | CERTIFICATE   per step: the claimed optimum and its limits    |
 *               | PIECES        the cost of a collective                        |
 *               | OPTIONS       key and value, ascending by key                 |
 *               | SOURCE_MAP    per parameter: line and column in the model     |
 *               | (KERNELS and what later minor versions add)                   |
 *               +---------------------------------------------------------------+
 *
 * Everything refers to everything else by index, so that a plan can lie anywhere in memory;
 * PLAN_NONE is "no such thing". Numbers are little-endian, times µs (IEEE double), sizes bytes.
 * Fields called `zero` and all padding are zero, and the reader insists: every byte of a file has
 * one meaning.
 *
 * One step's arena, which is the memory that the collectives work on (docs/plan-format.md):
 *
 *     0          4096              8192          12288          16384         arena_bytes
 *     | control  | bucket 1        | bucket 2    | bucket 3     | presence    |
 *     +----------+-----------------+-------------+--------------+-------------+
 *       float32    [w0..][w1....]    [b][w2..]     [w3.........]  float32
 *                  each segment padded to 16 bytes, each bucket to 4096
 *
 * Compatibility: a minor version may add sections and record kinds that old readers can do without;
 * the size or meaning of a record changes only with the major version. */
#ifndef DDPC_PLAN_H
#define DDPC_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error                                                                                             \
    "plans are little-endian and their records are read in place: this host needs a swapping reader"
#endif

/* The first eight bytes. The high bit, the two line ends and the end-of-file byte catch a transfer
 * that took the file for text (the PNG signature's trick). */
#define PLAN_MAGIC "\211DDP\r\n\032\n"

enum {
    PLAN_MAJOR = 1,
    PLAN_MINOR = 0,
    PLAN_PROTOCOL = 1,        /* what ranks say to each other: control slots, order, agreement */
    PLAN_SEGMENT_ALIGN = 16,  /* bytes; so that 16-byte vector accesses never straddle */
    PLAN_BUCKET_ALIGN = 4096, /* bytes; a page, as window registration wants it */
    PLAN_MAX_STEPS = 65535,   /* a step's index has 16 bits in the control bucket */
};
#define PLAN_NONE UINT32_MAX

/* Element types: id, name in reports, number (TensorProto.DataType), bits, carries gradients. */
#define PLAN_DTYPES(X)                                                                             \
    X(FLOAT32, "float32", 1, 32, true)                                                             \
    X(UINT8, "uint8", 2, 8, false)                                                                 \
    X(INT8, "int8", 3, 8, false)                                                                   \
    X(UINT16, "uint16", 4, 16, false)                                                              \
    X(INT16, "int16", 5, 16, false)                                                                \
    X(INT32, "int32", 6, 32, false)                                                                \
    X(INT64, "int64", 7, 64, false)                                                                \
    X(BOOL, "bool", 9, 8, false)                                                                   \
    X(FLOAT16, "float16", 10, 16, true)                                                            \
    X(FLOAT64, "float64", 11, 64, true)                                                            \
    X(UINT32, "uint32", 12, 32, false)                                                             \
    X(UINT64, "uint64", 13, 64, false)                                                             \
    X(COMPLEX64, "complex64", 14, 64, true)                                                        \
    X(COMPLEX128, "complex128", 15, 128, true)                                                     \
    X(BFLOAT16, "bfloat16", 16, 16, true)                                                          \
    X(FLOAT8E4M3FN, "float8_e4m3fn", 17, 8, true)                                                  \
    X(FLOAT8E4M3FNUZ, "float8_e4m3fnuz", 18, 8, true)                                              \
    X(FLOAT8E5M2, "float8_e5m2", 19, 8, true)                                                      \
    X(FLOAT8E5M2FNUZ, "float8_e5m2fnuz", 20, 8, true)                                              \
    X(UINT4, "uint4", 21, 4, false)                                                                \
    X(INT4, "int4", 22, 4, false)                                                                  \
    X(FLOAT4E2M1, "float4_e2m1", 23, 4, true)                                                      \
    X(FLOAT8E8M0, "float8_e8m0", 24, 8, true)                                                      \
    X(UINT2, "uint2", 25, 2, false)                                                                \
    X(INT2, "int2", 26, 2, false)

enum plan_dtype {
#define X(id, name, number, bits, grad) PLAN_##id = number,
    PLAN_DTYPES(X)
#undef X
};
/* A parameter's class in a step. */
enum plan_class { PLAN_ALWAYS, PLAN_NEVER, PLAN_CONDITIONAL, PLAN_FROZEN, PLAN_N_CLASSES };
enum plan_policy { PLAN_EXACT, PLAN_DDP, PLAN_SINGLE, PLAN_ROBUST, PLAN_N_POLICIES };
enum plan_order { PLAN_READY, PLAN_REGISTRATION, PLAN_DDP_FLAG, PLAN_N_ORDERS };
enum plan_average { PLAN_WORLD, PLAN_PRESENT, PLAN_UNSCALED, PLAN_N_AVERAGES };
enum plan_guards { PLAN_DISCOVERED, PLAN_REPORTED, PLAN_N_GUARDS };
/* PLAN_CONTROL: each step's first. PLAN_GRADIENT: has segments. PLAN_PRESENCE: the last of some. */
enum plan_bucket_kind { PLAN_CONTROL, PLAN_GRADIENT, PLAN_PRESENCE, PLAN_N_BUCKET_KINDS };

/* The control bucket is float32 pairs, pair k at floats [2k, 2k+1], and pair k says one bit x as
 * (x, 1 - x). After the sum over ranks they were unanimous iff exactly one of the two is zero. */
enum plan_control_pair {
    PLAN_PAIR_ERROR = 0,     /* this rank failed: the first of the pair is not zero iff any did */
    PLAN_PAIR_STEP = 1,      /* 16 bits of the step's index, lowest first */
    PLAN_PAIR_SEQUENCE = 17, /* 32 bits of the count of step_begins so far, lowest first */
    PLAN_PAIR_GUARDS = 49,   /* one per uniform guard, in the order of the guards */
};
/* The presence bucket is float32 slots: the error slot, then one per conditional parameter of the
 * step in the order of the segments: 1 where this rank has the gradient. */
enum { PLAN_PRESENCE_ERROR = 0, PLAN_PRESENCE_FIRST = 1 };

/* ---- records --------------------------------------------------------------------------------- */

/* 0       8       10      12           16      24       28     32        48         64     80
 * | magic | major | minor | n_sections | file  | proto- | zero | content | semantic | zero |
 * |       | u16   | u16   | u32        | bytes | col    | u32  | hash    | hash     | 16 B | */
struct plan_header {
    uint8_t magic[8];
    uint16_t major, minor;
    uint32_t n_sections;
    uint64_t file_bytes;
    uint32_t protocol;
    uint32_t zero;
    uint8_t content_hash[16];  /* XXH3-128, canonical form, of the file with these 16 bytes zero */
    uint8_t semantic_hash[16]; /* XXH3-128 of what ranks must agree on: plan_semantic_hash */
    uint8_t zero2[16];
};

enum plan_section_kind {
    PLAN_SECTION_STRINGS = 1,
    PLAN_SECTION_TEXT,
    PLAN_SECTION_PARAMS,
    PLAN_SECTION_DIMS,
    PLAN_SECTION_NAMES,
    PLAN_SECTION_STEPS,
    PLAN_SECTION_STEP_PARAMS,
    PLAN_SECTION_BUCKETS,
    PLAN_SECTION_SEGMENTS,
    PLAN_SECTION_GUARDS,
    PLAN_SECTION_GUARD_NODES,
    PLAN_SECTION_BRANCHES,
    PLAN_SECTION_CERTIFICATE,
    PLAN_SECTION_PIECES,
    PLAN_SECTION_OPTIONS,
    PLAN_SECTION_SOURCE_MAP,
    PLAN_SECTION_KERNELS, /* reserved: not written yet, skipped like an unknown kind */
};
/* All up to SOURCE_MAP are there in every file, possibly with count 0. */
enum { PLAN_N_SECTIONS = PLAN_SECTION_SOURCE_MAP };

struct plan_section {
    uint32_t kind;
    uint32_t record_bytes;
    uint64_t offset; /* from the file's start: where the previous section ends, rounded up to 16 */
    uint64_t count;  /* records */
};

/* Ascending bytewise and therefore unique: two names are equal iff their indices are. */
struct plan_string {
    uint32_t offset, length; /* in TEXT; without the NUL that follows, and without any inside */
};

/* A trainable tensor, frozen and never-used ones included. In the order of declaration. */
struct plan_param {
    uint32_t name; /* STRINGS; no two have the same */
    uint16_t dtype, rank;
    uint32_t first_dim, zero; /* DIMS: rank of them */
    uint64_t elements;        /* product of the dims */
};

/* NAMES: a power of two of slots, at least 2 x n_params, each 0 or a parameter's index + 1. A name
 * is looked for from slot XXH3_64(name) & (slots - 1) upwards, with wrap-around, to the first empty
 * one. */

struct plan_step {
    uint32_t name;                          /* STRINGS; no two have the same */
    uint8_t policy, order, average, guards; /* enums above */
    uint32_t topology;                      /* STRINGS: the cost model's name */
    uint32_t first_bucket, n_buckets;       /* BUCKETS; a control bucket first */
    uint32_t first_segment, n_segments;     /* SEGMENTS of all its buckets */
    uint32_t n_conditional;                 /* of its segments: as many presence slots */
    uint64_t arena_bytes;                   /* a multiple of PLAN_BUCKET_ALIGN */
    uint32_t error_bucket, zero;            /* its last bucket: holds the error slot */
    uint64_t error_offset; /* of the error slot in the arena, one element of that bucket's
                            * dtype: not zero after the sum iff a rank failed */
    double backward_us;    /* the predicted backward pass */
    double finish_us, lower_bound_us, exposed_us; /* predicted; exposed = finish - backward, >= 0 */
    double worst_regret;                          /* of a robust schedule; -1 where not computed */
};

/* STEP_PARAMS[step x n_params + param] */
struct plan_step_param {
    uint8_t class; /* enum plan_class */
    uint8_t exact; /* 1: a true guard promises presence; 0: only a false one promises absence */
    uint16_t zero;
    uint32_t guard;         /* GUARDS; PLAN_NONE unless conditional */
    uint32_t segment;       /* SEGMENTS; PLAN_NONE for never and frozen */
    uint32_t presence_slot; /* float in the presence bucket; PLAN_NONE unless conditional */
};

/* One collective. Buckets lie in the arena in the order of issue, each at the next multiple of
 * PLAN_BUCKET_ALIGN. */
struct plan_bucket {
    uint32_t step;
    uint8_t kind, dtype, class, zero; /* class: always or conditional; control, presence: always */
    uint32_t guard;         /* GUARDS, a uniform one: skipped where it is false; else PLAN_NONE */
    uint32_t first_segment; /* SEGMENTS, also where there are none: the next bucket's */
    uint32_t n_segments, zero2;
    uint64_t offset; /* in the step's arena */
    uint64_t bytes;  /* on the wire: padded segments, plus 16 for the error slot at its tail;
                      * control and presence: all slots, rounded up to 16 */
    uint64_t gradient_bytes;           /* its gradients without padding */
    double ready_us, start_us, end_us; /* predicted, from the start of backward */
};

/* One gradient's place. The first starts its bucket; each follows the one before, padded to 16. */
struct plan_segment {
    uint32_t param, bucket;
    uint64_t offset; /* in the step's arena */
    uint64_t bytes;  /* without padding */
    double ready_us; /* predicted */
};

/* The condition of conditional parameters: a boolean function of the branches as a reduced ordered
 * decision diagram. A function is 0 (false), 1 (true), or node index + 2. */
struct plan_guard {
    uint32_t root;
    uint32_t text;         /* STRINGS: "d_turn && !skip" */
    uint32_t control_pair; /* uniform (all its branches are): its pair in the control bucket */
    uint32_t zero;         /* control_pair is PLAN_NONE if it is not uniform */
};
struct plan_guard_node {
    uint32_t branch;    /* lower than its children's */
    uint32_t low, high; /* the function where the branch is false, true; nodes before this one */
};

struct plan_branch {
    uint32_t name;    /* STRINGS; no two have the same */
    uint32_t uniform; /* 1: the same on every rank, as the user promises */
};

/* CERTIFICATE[step]: the claim that `ddpc verify` checks by its own means. Ready times and sizes
 * are the segments' (padded), the groups' boundaries the buckets'. */
struct plan_certificate {
    uint32_t step;
    uint32_t optimal; /* 1: optimum_us is claimed to be the least over order-preserving
                       * bucketings under the two limits */
    uint32_t first_piece, n_pieces; /* PIECES: c(S) = min (alpha_us + S x us_per_byte) */
    uint64_t cap_bytes;             /* of a bucket, padded; 0: none */
    uint32_t max_buckets, ranks;    /* per group, 0: no limit; ranks of the topology */
    double optimum_us;
};
struct plan_piece {
    double alpha_us, us_per_byte;
};

struct plan_option {
    uint32_t key, value; /* STRINGS, "schedule" = "exact" */
};

/* SOURCE_MAP[param]: from 1; both 0 where the model's text does not have it. */
struct plan_source {
    uint32_t line, column;
};

#define PLAN_SIZE_IS(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
PLAN_SIZE_IS(plan_header, 80);
PLAN_SIZE_IS(plan_section, 24);
PLAN_SIZE_IS(plan_string, 8);
PLAN_SIZE_IS(plan_param, 24);
PLAN_SIZE_IS(plan_step, 96);
PLAN_SIZE_IS(plan_step_param, 16);
PLAN_SIZE_IS(plan_bucket, 72);
PLAN_SIZE_IS(plan_segment, 32);
PLAN_SIZE_IS(plan_guard, 16);
PLAN_SIZE_IS(plan_guard_node, 12);
PLAN_SIZE_IS(plan_branch, 8);
PLAN_SIZE_IS(plan_certificate, 40);
PLAN_SIZE_IS(plan_piece, 16);
PLAN_SIZE_IS(plan_option, 8);
PLAN_SIZE_IS(plan_source, 8);

/* ---- the reader ------------------------------------------------------------------------------ */

enum plan_status {
    PLAN_OK = 0,
    PLAN_UNREADABLE, /* open or read failed, a directory */
    PLAN_NO_MEMORY,
    PLAN_NOT_A_PLAN,  /* no magic */
    PLAN_OTHER_MAJOR, /* written by another generation; the message names both versions */
    PLAN_TRUNCATED,   /* shorter or longer than it says */
    PLAN_BAD_HASH,    /* damaged */
    PLAN_CORRUPT,     /* a record breaks a rule; the message names section, record and field */
};

struct plan_error {
    enum plan_status status;
    char message[240]; /* a sentence that lacks its subject, the file: "is cut off ..." */
};

/* A checked plan. The arrays can be indexed by whatever index the records hold, without checks. */
struct plan {
    const struct plan_header *header;
    uint32_t n_strings, n_params, n_steps, n_buckets, n_segments, n_guards, n_guard_nodes,
        n_branches;
    uint32_t n_uniform_guards, n_pieces, n_options;
    const struct plan_string *string;
    const char *text;
    const struct plan_param *param;
    const int64_t *dim;
    const uint32_t *name_slot;
    uint32_t name_mask;
    const struct plan_step *step;
    const struct plan_step_param *step_param;
    const struct plan_bucket *bucket;
    const struct plan_segment *segment;
    const struct plan_guard *guard;
    const struct plan_guard_node *guard_node;
    const struct plan_branch *branch;
    const struct plan_certificate *certificate;
    const struct plan_piece *piece;
    const struct plan_option *option;
    const struct plan_source *source;
    size_t size;
    void *bytes; /* the private copy, 16-byte aligned */
};

/* Copy the file into private memory (a mapped one could change under us), then check everything in
 * one linear pass. NULL with *error filled on failure (error may be NULL). A hostile file can
 * neither crash them, nor make them take more than linear time, nor more memory than its size and a
 * tenth. */
struct plan *plan_open_file(const char *path, struct plan_error *error);
struct plan *plan_from_memory(const void *bytes, size_t size, struct plan_error *error);
void plan_close(struct plan *p); /* NULL is fine */

/* A parameter's index by name in O(1), or PLAN_NONE. */
uint32_t plan_find_param(const struct plan *p, const char *name, size_t length);
uint32_t plan_find_step(const struct plan *p, const char *name);   /* linear in the steps */
uint32_t plan_find_branch(const struct plan *p, const char *name); /* linear in the branches */

static inline const char *plan_string(const struct plan *p, uint32_t s) {
    return p->text + p->string[s].offset;
}
static inline const char *plan_param_name(const struct plan *p, uint32_t param) {
    return plan_string(p, p->param[param].name);
}
static inline const struct plan_step_param *plan_step_param(const struct plan *p, uint32_t step,
                                                            uint32_t param) {
    return &p->step_param[(size_t)step * p->n_params + param];
}

/* A guard's value; value[branch] is 0 or 1. At most n_branches steps. */
bool plan_guard_holds(const struct plan *p, uint32_t guard, const uint8_t *value);

/* Every rank of a job must have the same; covers names, shapes, dtypes, classes, guards, steps,
 * buckets, offsets, averaging and the protocol; not times, options, certificate or source map. */
void plan_semantic_hash(const struct plan *p, uint8_t out[16]);
void plan_content_hash(const void *bytes, size_t size, uint8_t out[16]);

/* NAMES' hash: XXH3_64. */
uint64_t plan_name_hash(const char *name, size_t length);

const char *plan_dtype_name(uint32_t dtype); /* NULL if there is none */
uint32_t plan_dtype_bits(uint32_t dtype);    /* 0 if there is none */
bool plan_dtype_has_gradient(uint32_t dtype);
const char *plan_class_name(uint32_t c);
const char *plan_policy_name(uint32_t policy);
const char *plan_order_name(uint32_t order);
const char *plan_average_name(uint32_t average);
const char *plan_guards_name(uint32_t guards);
const char *plan_bucket_kind_name(uint32_t kind);

/* ---- layout arithmetic, for both sides ------------------------------------------------------- */

static inline uint64_t plan_align(uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) & ~(to - 1);
}
/* What a gradient of so many bytes takes in its bucket; never 0, so that no two share an offset. */
static inline uint64_t plan_segment_bytes(uint64_t bytes) {
    return plan_align(bytes ? bytes : 1, PLAN_SEGMENT_ALIGN);
}
static inline uint64_t plan_control_bytes(uint32_t n_uniform_guards) {
    return plan_align(8 * ((uint64_t)PLAN_PAIR_GUARDS + n_uniform_guards), PLAN_SEGMENT_ALIGN);
}
static inline uint64_t plan_presence_bytes(uint32_t n_conditional) {
    return plan_align(4 * ((uint64_t)PLAN_PRESENCE_FIRST + n_conditional), PLAN_SEGMENT_ALIGN);
}

#endif
