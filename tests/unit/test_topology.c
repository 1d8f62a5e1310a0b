/* Topologies, devices, profiles: presets, clusters, files, and what is wrong with them. test_nccl.c
 * has the figures. */
#define _POSIX_C_SOURCE 200809L
#include "keyfile.h"
#include "schedule.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct diags diags;

static void setup(void) { diags_init(&diags, NULL); }
static void teardown(void) { diags_free(&diags); }
TestSuite(topology, .init = setup, .fini = teardown);

/* A file with this text; its name is valid until the next call. */
static const char *file_with(const char *text) {
    static char path[] = "/tmp/ddpc-test-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

Test(topology, file) {
    const char *path = file_with("# measured\nname = two nodes # ours\n\n ranks=4\n"
                                 "piece = 12.5 10\npiece\t=\t30 2.5e1\r\n");
    struct topology t;
    cr_assert(topology_read(&t, path, &diags));
    unlink(path);
    cr_assert_str_eq(t.name, "two nodes");
    cr_assert_eq(t.ranks, 4);
    cr_assert_eq(t.n_pieces, 2);
    cr_assert_eq(topology_cost_us(&t, 100000), 12.5 + 10);
    cr_assert_eq(topology_cost_us(&t, 1000000), 30 + 40);
}

static void expect_diag(uint32_t at, enum diag_code code, const char *part) {
    cr_assert_gt(diags.all.n, at, "no diagnostic with '%s'", part);
    cr_expect_eq(diags.all.at[at]->code, code);
    cr_expect(strstr(diags.all.at[at]->text, part), "'%s' lacks '%s'", diags.all.at[at]->text,
              part);
}

Test(topology, bad_files) {
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"ranks 4\n", "key = value"},
        {"speed = 4\n", "unknown key"},
        {"ranks = 1.5\n", "whole number"},
        {"ranks = 0\n", "whole number"},
        {"piece = 1\n", "latency"},
        {"piece = 1 0\n", "latency"},
        {"piece = 1 2 3\n", "latency"},
        {"piece = -1 2\n", "latency"},
        {"name =\n", "1 to 63"},
        {"ranks = 2\n", "without `piece"},
        {"piece = 1 2\n", "without `ranks"},
        {"", "without"},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = file_with(bad[i].text);
        struct topology t;
        cr_expect(!topology_read(&t, path, &diags), "'%s' was taken", bad[i].text);
        unlink(path);
        expect_diag(i, DIAG_TOPOLOGY_FILE, bad[i].part);
    }
}

Test(topology, unknown_names_get_the_nearest) {
    struct topology t;
    cr_assert(!topology_read(&t, "h100x9", &diags));
    expect_diag(0, DIAG_UNKNOWN_TOPOLOGY, "'h100x9' is no preset");
    cr_expect(strstr(diags.all.at[0]->help, "did you mean 'h100x8'?"));
    cr_expect(strstr(diags.all.at[0]->help, "eth25-x16"));
    struct device d;
    cr_assert(!device_read(&d, "h10", &diags));
    expect_diag(1, DIAG_UNKNOWN_DEVICE, "'h10' is no preset");
    cr_expect(strstr(diags.all.at[1]->help, "did you mean 'h100'?"));
    cr_assert(!device_read(&d, "/", &diags));
    expect_diag(2, DIAG_UNKNOWN_DEVICE, "directory");
}

/* A cluster's pieces are what `ddpc topology` prints: four digits, which a file reads back as they
 * are. */
Test(topology, clusters) {
    struct topology t, again;
    cr_assert(topology_read(&t, "ib:400x8,nvlink:8,nodes:64", &diags));
    cr_assert_str_eq(t.name, "ib:400x8,nvlink:8,nodes:64");
    cr_assert_eq(t.ranks, 512);
    char text[512];
    int length = snprintf(text, sizeof text, "ranks = %u\n", t.ranks);
    for (uint32_t i = 0; i < t.n_pieces; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "piece = %.4g %.4g\n",
                           t.piece[i].alpha_us, 1 / (1000 * t.piece[i].us_per_byte));
    const char *path = file_with(text);
    cr_assert(topology_read(&again, path, &diags));
    unlink(path);
    cr_assert_eq(again.n_pieces, t.n_pieces);
    cr_assert_arr_eq(again.piece, t.piece, t.n_pieces * sizeof *t.piece);
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"nvlnk:8", "'nvlnk' is no word"},
        {"nvlink:8,", "empty"},
        {"nvlink:8,nodes", "nodes has no value"},
        {"nvlink:17", "nvlink:17"},
        {"nvlink:8,pcie:8", "both nvlink and pcie"},
        {"nodes:2,eth:25,ib:25", "both eth and ib"},
        {"nodes:2,nodes:2,ib:1", "nodes comes twice"},
        {"nodes:16385,ib:1", "nodes:16385"},
        {"nodes:2,ib:0.5", "ib:0.5"},
        {"nodes:2,ib:400x", "ib:400x"},
        {"nodes:2,ib:400x17", "ib:400x17"},
        {"nodes:2,ib:1e9", "ib:1e9"},
        {"nodes:4", "4 nodes have no network"},
        {"nvlink:8,ib:400", "ib joins nothing"},
        {"gpu:h100", "single GPU"},
        {"gpu:h1000,pcie:2", "gpu:h1000"},
        {"gpu:l4,nvlink:2", "l4 has no NVLink"},
        {"nvlink:8,nodes:64,ib:400x8,gpu:h100,nvlink:8,nodes:64,ib:400x8,gpu:h100", "63 bytes"},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect(!topology_read(&t, bad[i].text, &diags), "'%s' was taken", bad[i].text);
        expect_diag(i, DIAG_TOPOLOGY_WORDS, bad[i].part);
        cr_expect(strstr(diags.all.at[i]->text, bad[i].text), "%s", bad[i].text);
        cr_expect(diags.all.at[i]->help);
    }
}

Test(topology, devices) {
    struct device d;
    cr_assert(device_read(&d, "h100", &diags));
    cr_assert_eq(d.flops_per_us, 989e6);
    cr_assert_eq(d.bytes_per_us, 3.35e6);
    cr_assert_eq(d.floor_us, 4);
    const char *path = file_with("name=mine\ntflops=10\nmemory_gb_s=500\nmatmul=.9\nfloor_us=0\n");
    cr_assert(device_read(&d, path, &diags));
    unlink(path);
    cr_assert_str_eq(d.name, "mine");
    cr_assert_eq(d.flops_per_us, 1e7);
    cr_assert_eq(d.bytes_per_us, 5e5);
    cr_assert_eq(d.matmul, .9);
    cr_assert_eq(d.attention, .35);
    cr_assert_eq(d.floor_us, 0);
    static const char *const bad[] = {"tflops=1\n", "tflops=1\nmemory_gb_s=1\nmatmul=1.5\n",
                                      "tflops=0\n", "watts=5\n", "tflops\n"};
    for (uint32_t i = 0; i < 5; i++) {
        path = file_with(bad[i]);
        cr_expect(!device_read(&d, path, &diags), "'%s' was taken", bad[i]);
        unlink(path);
        expect_diag(i, DIAG_DEVICE_FILE, i == 0 ? "memory_gb_s" : "this line");
    }
}

Test(topology, numbers) {
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},
                {"12", 12},
                {"0.1", 0.1},
                {".5", .5},
                {"5.", 5},
                {"1.5e3", 1500},
                {"2E-3", 2e-3},
                {"272.25", 272.25},
                {"1e+2", 100},
                {"1234567890.12345", 1234567890.12345},
                {"9007199254740992", 9007199254740992.0}};
    for (uint32_t i = 0; i < sizeof good / sizeof *good; i++) {
        double x;
        cr_expect(keyfile_number(good[i].text, strlen(good[i].text), &x), "%s", good[i].text);
        cr_expect_eq(x, good[i].value, "%s is %.17g", good[i].text, x);
    }
    static const char *const bad[] = {"",   ".",   "-1",   "+1",  "1,5",   "nan",   "inf", "0x10",
                                      "1e", "1e+", "1e99", "1 2", "1.2.3", "1e-30", "1µs"};
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double x;
        cr_expect(!keyfile_number(bad[i], strlen(bad[i]), &x), "'%s' was taken", bad[i]);
    }
}

Test(topology, more_digits_than_a_double_has) {
    static const char *const texts[] = {"412.53999999999996", "0.30000000000000004",
                                        "99999999999999999999", "123456789012345678.9e-3"};
    for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double x, is = strtod(texts[i], NULL);
        cr_expect(keyfile_number(texts[i], strlen(texts[i]), &x), "%s", texts[i]);
        cr_expect(x >= is * (1 - 2e-15) && x <= is * (1 + 2e-15), "%s is %.17g", texts[i], x);
    }
}

Test(topology, profile) {
    const char *path = file_with("# trace\nnode a 1.5\nready w 20\nnode \"b c\" 2\nnode a 3\n");
    struct profile *f = profile_read(path, &diags);
    unlink(path);
    cr_assert(f);
    cr_assert_eq(profile_size(f), 3);
    double us = -1;
    uint32_t a = profile_find(f, PROFILE_NODE, "a", 1, &us);
    cr_assert(a && us == 3, "the last line for a name counts");
    cr_assert_str_eq(profile_name(f, a - 1), "a");
    cr_assert(profile_find(f, PROFILE_NODE, "b c", 3, &us) && us == 2);
    cr_assert(profile_find(f, PROFILE_READY, "w", 1, &us) && us == 20);
    us = -1;
    cr_assert(!profile_find(f, PROFILE_READY, "a", 1, &us) && us == -1);
    cr_assert(!profile_find(f, PROFILE_NODE, "x", 1, &us));
    profile_free(f);
    static const char *const bad[] = {"forward a 1\n", "node a\n", "node 7\n", "node a b 7\n",
                                      "ready w -3\n"};
    for (uint32_t i = 0; i < 5; i++) {
        path = file_with(bad[i]);
        cr_expect_null(profile_read(path, &diags), "'%s' was taken", bad[i]);
        unlink(path);
        expect_diag(i, DIAG_PROFILE_FILE, "this line");
    }
    cr_assert_null(profile_read("/nonexistent/profile", &diags));
    expect_diag(5, DIAG_CANNOT_READ, "does not exist");
}
