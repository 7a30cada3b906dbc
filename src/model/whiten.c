#include "model/whiten.h"

#include <math.h>
#include "base/memory.h"

struct ls_whiten {
    ls_param_shape weight;
    ls_chw picture;
    int n;              // number of values of a patch
    int64_t patches;    // patches added so far
    uint64_t *products; // n x n, upper triangle: sums of value i * value j of all patches
    uint64_t *sums;     // sums of value i of all patches
};

ls_status ls_whiten_new(const ls_param_shape *weight, ls_chw picture, ls_whiten **out) {
    ls_whiten *w = ls_new(1, sizeof *w, "whitening");
    w->weight = *weight;
    w->picture = picture;
    w->n = weight->dim[1] * weight->dim[2] * weight->dim[3];
    w->sums = ls_new(w->n, sizeof *w->sums, "sums of a patch of %d values", w->n);
    ls_status status =
        ls_try_new(&w->products, w->n * w->n, sizeof *w->products, "products of a patch of %d values", w->n);
    return LS_GIVE_OR_FREE(status, w, out, ls_whiten_free);
}

void ls_whiten_free(ls_whiten *w) {
    if (!w) return;
    free(w->products);
    free(w->sums);
    free(w);
}

// --- sums over patches ----------------------------------------------------------------------------------------------

// Returns the address of value i of the first patch. The values of other patches have the same distances to each other.
static const uint8_t *value_of_patch(const ls_whiten *w, const uint8_t *pixels, int i) {
    const int s = i % w->weight.dim[3], r = i / w->weight.dim[3] % w->weight.dim[2];
    const int c = i / (w->weight.dim[3] * w->weight.dim[2]);
    return pixels + ((size_t)c * (size_t)w->picture.h + (size_t)r) * (size_t)w->picture.w + s;
}

// Returns the sum of a[i] * b[i] over part of a picture's row: at most 65,535 pixels, so the sum is below 2^32.
static uint32_t sum_of_products(const uint8_t *a, const uint8_t *b, int count) {
    uint32_t sum = 0;
    for (int i = 0; i < count; i++) sum += (uint32_t)a[i] * b[i];
    return sum;
}

static uint32_t sum_of(const uint8_t *a, int count) {
    uint32_t sum = 0;
    for (int i = 0; i < count; i++) sum += a[i];
    return sum;
}

void ls_whiten_add(ls_whiten *w, const uint8_t *pixels) {
    const int rows = w->picture.h - w->weight.dim[2] + 1, columns = w->picture.w - w->weight.dim[3] + 1;
    for (int i = 0; i < w->n; i++) {
        const uint8_t *a = value_of_patch(w, pixels, i);
        for (int y = 0; y < rows; y++) w->sums[i] += sum_of(a + (int64_t)y * w->picture.w, columns);
        for (int j = i; j < w->n; j++) {
            const uint8_t *b = value_of_patch(w, pixels, j);
            uint64_t sum = 0;
            for (int y = 0; y < rows; y++) {
                const int64_t row = (int64_t)y * w->picture.w;
                sum += sum_of_products(a + row, b + row, columns);
            }
            w->products[i * w->n + j] += sum;
        }
    }
    w->patches += (int64_t)rows * columns;
}

// Computes the matrix A of whiten.h from the sums over pixels. A belongs to normalised values a * pixel + b, where a
// and b depend on the value's channel.
static void normalised_products(const ls_whiten *w, const float *mean, const float *std, double *matrix) {
    const int plane = w->weight.dim[2] * w->weight.dim[3], n = w->n;
    const double patches = (double)w->patches;
    for (int i = 0; i < n; i++) {
        const double mean_i = (double)mean[i / plane], std_i = (double)std[i / plane];
        const double ai = 1 / (255 * std_i), bi = -mean_i / std_i, si = (double)w->sums[i] / patches;
        for (int j = i; j < n; j++) {
            const double mean_j = (double)mean[j / plane], std_j = (double)std[j / plane];
            const double aj = 1 / (255 * std_j), bj = -mean_j / std_j, sj = (double)w->sums[j] / patches;
            const double product = (double)w->products[i * n + j] / patches;
            matrix[i * n + j] = matrix[j * n + i] = ai * aj * product + ai * bj * si + bi * aj * sj + bi * bj;
        }
    }
}

// --- eigenvectors ---------------------------------------------------------------------------------------------------

// Rotates two rows or columns p and q of a matrix by (c, s). Elements of each are `step` apart.
static void rotate(double *p, double *q, int n, int step, double c, double s) {
    for (int i = 0; i < n; i++, p += step, q += step) {
        const double x = *p, y = *q;
        *p = c * x - s * y;
        *q = s * x + c * y;
    }
}

// Makes a[p][q] zero by a rotation, also of `vectors` (Golub and Van Loan, "Matrix Computations", 8.5.2).
static void annihilate(double *a, double *vectors, int n, int p, int q) {
    const double off = a[p * n + q];
    if (off == 0) return;
    const double theta = (a[q * n + q] - a[p * n + p]) / (2 * off);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    rotate(a + p, a + q, n, n, c, s);
    rotate(a + p * n, a + q * n, n, 1, c, s);
    rotate(vectors + p * n, vectors + q * n, n, 1, c, s);
    a[p * n + q] = a[q * n + p] = 0;
}

// Diagonalises the symmetric matrix a: its diagonal becomes the eigenvalues, and the rows of `vectors` the
// eigenvectors.
static void diagonalise(double *a, double *vectors, int n) {
    enum { SWEEPS = 60 }; // convergence is quadratic: about 8 sweeps are enough
    double trace = 0, off = 1;
    for (int i = 0; i < n * n; i++) vectors[i] = i % (n + 1) == 0;
    for (int i = 0; i < n; i++) trace += fabs(a[i * n + i]);
    for (int sweep = 0; sweep < SWEEPS && off > 1e-18 * trace; sweep++) {
        off = 0;
        for (int p = 0; p < n; p++) {
            for (int q = p + 1; q < n; q++) {
                off = fmax(off, fabs(a[p * n + q]));
                annihilate(a, vectors, n, p, q);
            }
        }
    }
}

// Sets order[k] to the row of the eigenvector with the k-th largest eigenvalue.
static void sort_descending(const double *a, int n, int *order) {
    for (int i = 0; i < n; i++) {
        int k = i;
        for (; k > 0 && a[order[k - 1] * (n + 1)] < a[i * (n + 1)]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

static double sign_of(const double *vector, int n) {
    double largest = 0;
    for (int i = 0; i < n; i++) largest = fmax(largest, fabs(vector[i]));
    int first = 0;
    while (fabs(vector[first]) < largest / 2) first++;
    return vector[first] < 0 ? -1 : 1;
}

// --- filters --------------------------------------------------------------------------------------------------------

ls_status ls_whiten_filters(const ls_whiten *w, const float *mean, const float *std, double eps, float *weight) {
    const int n = w->n;
    double *matrix;
    LS_TRY(ls_try_new(&matrix, 2 * n * n, sizeof *matrix, "matrix of a patch of %d values", n));
    double *vectors = matrix + n * n;
    int *order = ls_new(n, sizeof *order, "eigenvectors of a patch of %d values", n);
    normalised_products(w, mean, std, matrix);
    diagonalise(matrix, vectors, n);
    sort_descending(matrix, n, order);
    for (int k = 0; k < w->weight.dim[0]; k++) {
        const int from = order[k % n];
        const double *vector = vectors + from * n;
        const double scale = (k < n ? 1 : -1) * sign_of(vector, n) / sqrt(fmax(matrix[from * (n + 1)], 0) + eps);
        for (int i = 0; i < n; i++) weight[k * n + i] = (float)(scale * vector[i]);
    }
    free(order);
    free(matrix);
    return LS_SUCCESS;
}
