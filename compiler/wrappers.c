/* DistributedDataParallel, torch.compile and PEFT hold the module that they wrap under a name of
 * their own, one around the other in any order, so that every parameter's name begins with theirs. */
#include "wrappers.h"
#include <stdbool.h>
#include <string.h>

static const char *const wrappers[] = {"module.", "_orig_mod.", "base_model.model."};

size_t wrappers_prefix(const char *const *names, uint32_t n) {
    size_t prefix = 0;
    for (bool more = n > 0; more;) {
        more = false;
        for (size_t w = 0; w < sizeof wrappers / sizeof *wrappers && !more; w++) {
            size_t length = strlen(wrappers[w]);
            more = true;
            for (uint32_t i = 0; i < n && more; i++)
                more = !strncmp(names[i] + prefix, wrappers[w], length);
            if (more) prefix += length;
        }
    }
    return prefix;
}
