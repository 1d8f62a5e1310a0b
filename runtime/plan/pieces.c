/* The fit: the least of a few lines, as near as possible to a cost in ratio.
 *
 * For a given error e each point k allows the band from low = us / (1 + e) to high = us x (1 + e).
 * The least of some lines is in all bands if every line is at or above every low, and every point
 * has a line at or below its high. Of the lines of one slope that are above all lows only the lowest
 * matters, the one that touches a low. It passes at or below a point's high just for an interval of
 * slopes: it must not be too flat to get over the lows on the right, nor too steep for those on the
 * left. So what is sought is the fewest slopes such that each interval contains one. That is easily
 * had: of the intervals without one, take the one that begins at the largest slope; its begin is a
 * slope. The least error for a number of lines is then found by bisection.
 *
 * Only + - x / and comparisons, a fixed number of times: the same pieces on every machine. */
#include "pieces.h"

void pieces_monotone(struct cost_point *point, uint32_t n) {
    for (uint32_t k = n; k-- > 1;)
        if (point[k - 1].us > point[k].us) point[k - 1].us = point[k].us;
}

static double slope(const struct cost_point *p, uint32_t j, double us_j, uint32_t k, double us_k) {
    return (us_k - us_j) / (p[k].bytes - p[j].bytes);
}

/* The slopes for a point. */
struct interval {
    double from, to;
};

/* No slope is less than the flattest with which the lows end. */
static bool intervals_of(const struct cost_point *p, uint32_t n, double band,
                         struct interval *out) {
    double last = p[n - 1].us / band, least = last / p[n - 1].bytes;
    for (uint32_t j = 0; j + 1 < n; j++) {
        double end = slope(p, j, p[j].us / band, n - 1, last);
        if (end < least) least = end;
    }
    if (least < last / p[n - 1].bytes / 1000) least = last / p[n - 1].bytes / 1000; /* not flat */
    for (uint32_t k = 0; k < n; k++) {
        double high = p[k].us * band;
        struct interval s = {least, high / p[k].bytes}; /* alpha >= 0 */
        for (uint32_t j = 0; j < n; j++) {
            if (j == k) continue;
            double touch = slope(p, k, high, j, p[j].us / band);
            if (j < k && touch < s.to) s.to = touch;
            if (j > k && touch > s.from) s.from = touch;
        }
        if (s.from > s.to) return false;
        out[k] = s;
    }
    return true;
}

/* The lowest line of this slope above all lows. */
static struct plan_piece line_of(const struct cost_point *p, uint32_t n, double band, double us) {
    double alpha = 0;
    for (uint32_t k = 0; k < n; k++)
        if (p[k].us / band - us * p[k].bytes > alpha) alpha = p[k].us / band - us * p[k].bytes;
    return (struct plan_piece){alpha, us};
}

/* How many lines are needed; most + 1: more. */
static uint32_t cover(const struct cost_point *p, uint32_t n, double error, uint32_t most,
                      struct plan_piece *piece) {
    struct interval slopes[PIECES_MAX_POINTS];
    if (!intervals_of(p, n, 1 + error, slopes)) return most + 1;
    for (uint32_t count = 0;; count++) {
        double next = -1;
        for (uint32_t k = 0; k < n; k++) {
            bool has = false;
            for (uint32_t i = 0; i < count && !has; i++)
                has =
                    piece[i].us_per_byte >= slopes[k].from && piece[i].us_per_byte <= slopes[k].to;
            if (!has && slopes[k].from > next) next = slopes[k].from;
        }
        if (next < 0) return count;
        if (count == most) return most + 1;
        piece[count] = line_of(p, n, 1 + error, next);
    }
}

uint32_t pieces_fit(const struct cost_point *point, uint32_t n, uint32_t most, double good,
                    struct plan_piece *piece, double *error) {
    uint32_t count = 0;
    for (uint32_t lines = 1; lines <= most; lines++) {
        double bad = 0, enough = 1; /* errors */
        while (cover(point, n, enough, lines, piece) > lines) {
            bad = enough;
            enough *= 2;
        }
        for (int i = 0; i < 40; i++) {
            double middle = (bad + enough) / 2;
            if (cover(point, n, middle, lines, piece) > lines)
                bad = middle;
            else
                enough = middle;
        }
        count = cover(point, n, enough, lines, piece);
        *error = enough;
        if (enough <= good) break;
    }
    return count;
}
