// A library of custom operators for ONNX Runtime, by the layout of OrtCustomOp of version 17
// and the indices of OrtApi (onnxruntime_c_api.h): Times multiplies floats by the session
// configuration entry test.factor.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void *status;
static void **api;

#define CALL(i, type) ((status (*) type)api[i])
enum { mutableData = 51, elementCount = 64, typeAndShape = 65, createDomain = 26, addOperator = 27, addDomain = 28, input = 90, output = 91, releaseInfo = 99, dimensionsCount = 61, dimensions = 62, configEntry = 238 };

static float factor;

static const char *name(void *op) { return "Times"; }
static const char *provider(void *op) { return NULL; }
static int float32(void *op, size_t i) { return 1; }
static size_t one(void *op) { return 1; }
static int required(void *op, size_t i) { return 0; }
static int memory(void *op, size_t i) { return 0; }
static void destroy(void *kernel) {}
static status create(void *op, void *a, void *info, void **kernel) {
	*kernel = op;
	return NULL;
}
static status compute(void *kernel, void *context) {
	void *x, *y, *info;
	float *in, *out;
	size_t rank, n;
	int64_t dims[8];
	status s;
	if ((s = CALL(input, (void *, size_t, void **))(context, 0, &x)) || (s = CALL(typeAndShape, (void *, void **))(x, &info)) ||
	    (s = CALL(elementCount, (void *, size_t *))(info, &n)) || (s = CALL(dimensionsCount, (void *, size_t *))(info, &rank)) ||
	    (s = CALL(dimensions, (void *, int64_t *, size_t))(info, dims, rank)) ||
	    (s = CALL(output, (void *, size_t, int64_t *, size_t, void **))(context, 0, dims, rank, &y)) ||
	    (s = CALL(mutableData, (void *, void **))(x, (void **)&in)) || (s = CALL(mutableData, (void *, void **))(y, (void **)&out)))
		return s;
	for (size_t i = 0; i < n; i++)
		out[i] = in[i] * factor;
	((void (*)(void *))api[releaseInfo])(info);
	return NULL;
}

static struct {
	uint32_t version;
	void *callbacks[18];
	void *rest[8];
} operator_ = {17, {NULL, name, provider, float32, one, float32, one, NULL, destroy, required, required, memory, NULL, NULL, NULL, NULL, create, compute}};

status RegisterCustomOps(void *options, void **base) {
	api = ((void **(*)(uint32_t))base[0])(17);
	static void *domain; // lives as long as the sessions
	static char text[16];
	size_t n = sizeof text;
	status s = CALL(configEntry, (void *, const char *, char *, size_t *))(options, "test.factor", text, &n);
	factor = atof(text);
	if (s)
		return s;
	if (!domain && ((s = CALL(createDomain, (const char *, void **))("test.c", &domain)) || (s = CALL(addOperator, (void *, void *))(domain, &operator_))))
		return s;
	return CALL(addDomain, (void *, void *))(options, domain);
}
