#include "strtab.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(strtab, the_empty_string_is_zero) {
    struct strtab t;
    strtab_init(&t);
    cr_assert_eq(strtab_add(&t, "", 0), 0);
    cr_assert_str_eq(strtab_text(&t, 0), "");
    strtab_free(&t);
}

Test(strtab, each_string_once_in_order_of_appearance) {
    struct strtab t;
    strtab_init(&t);
    enum { N = 50000 };
    char text[32];
    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < N; i++) {
            snprintf(text, sizeof text, "layer.%u.weight", i);
            cr_assert_eq(strtab_addz(&t, text), i + 1, "%s", text);
        }
    for (unsigned i = 0; i < N; i++) {
        snprintf(text, sizeof text, "layer.%u.weight", i);
        cr_assert_str_eq(strtab_text(&t, i + 1), text);
        cr_assert_eq(strtab_len(&t, i + 1), strlen(text));
    }
    strtab_free(&t);
}

/* Every prefix of a string is another string, whatever way the hash takes through its bytes. */
Test(strtab, length_counts) {
    struct strtab t;
    strtab_init(&t);
    char zeros[100] = {0};
    for (size_t len = 0; len < sizeof zeros; len++) cr_assert_eq(strtab_add(&t, zeros, len), len);
    for (size_t len = 0; len < sizeof zeros; len++) {
        str found;
        cr_assert(strtab_find(&t, zeros, len, &found));
        cr_assert_eq(found, len);
    }
    strtab_free(&t);
}

Test(strtab, find_adds_nothing) {
    struct strtab t;
    strtab_init(&t);
    str found;
    cr_assert_not(strtab_find(&t, "x", 1, &found));
    str x = strtab_add(&t, "xy", 1);
    cr_assert(strtab_find(&t, "x", 1, &found));
    cr_assert_eq(found, x);
    cr_assert_str_eq(strtab_text(&t, x), "x");
    strtab_free(&t);
}

Test(strtab, reserve_changes_nothing_but_room) {
    struct strtab t;
    strtab_init(&t);
    str a = strtab_addz(&t, "a");
    strtab_reserve(&t, 100000);
    strtab_reserve(&t, 10);
    cr_assert_eq(strtab_addz(&t, "a"), a);
    cr_assert_geq(t.n_slots, 200000);
    strtab_free(&t);
}

Test(strtab, printf_interns_long_texts_too) {
    struct strtab t;
    strtab_init(&t);
    char text[700];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = 0;
    cr_assert_eq(strtab_printf(&t, "%s", text), strtab_addz(&t, text));
    cr_assert_eq(strtab_printf(&t, "%d/%s", 3, "z"), strtab_addz(&t, "3/z"));
    strtab_free(&t);
}
