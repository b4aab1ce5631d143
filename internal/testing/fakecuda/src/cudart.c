// The part of CUDA's runtime that ONNX Runtime's CUDA provider calls, without a GPU.
//
// Device memory is mapped twice: at the addresses that callers get, where the CPU cannot
// access it, and at a shadow, through which copies read and write. Work on a stream waits in
// a queue until something synchronizes with the stream, as late as CUDA allows, so that a
// missing synchronization gives wrong results. Kernels are counted and compute nothing.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { success = 0, invalidValue = 1, outOfMemory = 2, invalidDevice = 101, symbolNotFound = 500 };
enum { hostToHost, hostToDevice, deviceToHost, deviceToDevice, anyDirection };
enum { unregistered, pinnedHost, device };

// The order of the counters is that of Counters in fakecuda.go.
static struct {
	int64_t mallocs, frees, hostMallocs, hostFrees, streams, destroyedStreams, toDevice, toHost, onDevice, launches, misuses;
} count;

#define API __attribute__((visibility("default")))

API void fakecudaCounters(int64_t *out) { memcpy(out, &count, sizeof count); }

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static __thread int lastError;

static int fail(const char *what, int code) {
	__atomic_add_fetch(&count.misuses, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "fakecuda: %s\n", what);
	return lastError = code;
}

// Blocks of memory, on the device and pinned ones of the host.
typedef struct block {
	char *p;
	size_t n;
	int used;
	struct block *next;
} block;

static const size_t capacity = (size_t)1 << 32; // reserved addresses; memory is taken when it is touched
static char *base, *shadow;
static size_t top;
static block *blocks, *pinned;

__attribute__((constructor)) static void start(void) {
	int fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)capacity) != 0)
		abort();
	base = mmap(NULL, capacity, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	shadow = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED || shadow == MAP_FAILED)
		abort();
	close(fd);
}

static int onDevice(const void *p) { return (const char *)p >= base && (const char *)p < base + capacity; }
static void *access_(const void *p) { return onDevice(p) ? shadow + ((const char *)p - base) : (void *)p; }

static block *find(block *list, const void *p) {
	for (block *b = list; b; b = b->next)
		if ((const char *)p >= b->p && (const char *)p < b->p + b->n)
			return b;
	return NULL;
}

// inside reports whether n bytes at p are within one block of the device in use, or on the host.
static int inside(const void *p, size_t n) {
	if (!onDevice(p) || n == 0)
		return 1;
	block *b = find(blocks, p);
	return b && b->used && (const char *)p + n <= b->p + b->n;
}

// Streams and what waits in them. Stream 0 is ordered with the blocking streams: it waits
// for the earlier work of theirs and their later work waits for it.
typedef struct op {
	enum { copyOp, setOp, hostOp, waitOp } kind;
	int64_t at;
	void *to;
	const void *from;
	size_t n;
	int value;
	void (*call)(void *);
	void *arg;
	struct stream *other; // waitOp: wait for its work
	int64_t until;        // up to this number
	struct op *next;
} op;

typedef struct stream {
	op *head, **tail;
	int nonBlocking;
	struct stream *next;
} stream;

typedef struct event {
	stream *s;
	int64_t at;
} event;

static stream zero = {0, &zero.head, 0, 0}, *streams;
static int64_t now;

static stream *of(void *s) { return (uintptr_t)s <= 2 ? &zero : (stream *)s; } // 1 and 2: legacy, per thread

static op *push(void *s, op x) {
	op *o = malloc(sizeof *o);
	*o = x;
	o->at = ++now;
	o->next = NULL;
	stream *t = of(s);
	*t->tail = o;
	t->tail = &o->next;
	return o;
}

static void drain(stream *s, int64_t until) {
	while (s->head && s->head->at <= until) {
		op *o = s->head;
		s->head = o->next;
		if (!s->head)
			s->tail = &s->head;
		if (s == &zero) {
			for (stream *t = streams; t; t = t->next)
				if (!t->nonBlocking)
					drain(t, o->at);
		} else if (!s->nonBlocking) {
			drain(&zero, o->at);
		}
		switch (o->kind) {
		case copyOp:
			if (!inside(o->to, o->n) || !inside(o->from, o->n))
				fail("a copy ran after its memory was freed", invalidValue);
			else
				memmove(access_(o->to), access_(o->from), o->n);
			free(o->arg);
			break;
		case setOp:
			memset(access_(o->to), o->value, o->n);
			break;
		case hostOp:
			pthread_mutex_unlock(&mu);
			o->call(o->arg);
			pthread_mutex_lock(&mu);
			break;
		case waitOp:
			drain(o->other, o->until);
		}
		free(o);
	}
}

static void drainAll(void) {
	drain(&zero, now);
	for (stream *s = streams; s; s = s->next)
		drain(s, now);
}

#define LOCK pthread_mutex_lock(&mu)
#define RETURN(code)               \
	do {                           \
		int r_ = (code);           \
		pthread_mutex_unlock(&mu); \
		return r_;                 \
	} while (0)

// Memory.

API int cudaMalloc(void **p, size_t n) {
	*p = NULL;
	if (n == 0)
		return success;
	size_t size = (n + 255) & ~(size_t)255;
	LOCK;
	block *b = blocks;
	while (b && (b->used || b->n != size))
		b = b->next;
	if (!b) {
		if (size > capacity - top)
			RETURN(lastError = outOfMemory);
		b = malloc(sizeof *b);
		*b = (block){base + top, size, 0, blocks};
		blocks = b;
		top += size;
	}
	b->used = 1;
	memset(access_(b->p), 0xcd, n < 4096 ? n : 4096); // undefined contents, at least of the first page
	count.mallocs++;
	*p = b->p;
	RETURN(success);
}

static int release(void *p, int wait) {
	if (!p)
		return success;
	LOCK;
	if (wait)
		drainAll();
	block *b = find(blocks, p);
	if (!b || !b->used || b->p != p)
		RETURN(fail("memory was freed that is not allocated", invalidValue));
	b->used = 0;
	count.frees++;
	RETURN(success);
}

API int cudaFree(void *p) { return release(p, 1); }
API int cudaFreeAsync(void *p, void *s) {
	LOCK;
	drain(of(s), now);
	pthread_mutex_unlock(&mu);
	return release(p, 0);
}
API int cudaMallocFromPoolAsync(void **p, size_t n, void *pool, void *s) { return cudaMalloc(p, n); }

API int cudaHostAlloc(void **p, size_t n, unsigned flags) {
	LOCK;
	*p = aligned_alloc(4096, (n + 4096) & ~(size_t)4095);
	block *b = malloc(sizeof *b);
	*b = (block){*p, n, 1, pinned};
	pinned = b;
	count.hostMallocs++;
	RETURN(success);
}
API int cudaMallocHost(void **p, size_t n) { return cudaHostAlloc(p, n, 0); }
API int cudaFreeHost(void *p) {
	if (!p)
		return success;
	LOCK;
	drainAll();
	for (block **b = &pinned; *b; b = &(*b)->next)
		if ((*b)->p == p) {
			block *old = *b;
			*b = old->next;
			free(old->p);
			free(old);
			count.hostFrees++;
			RETURN(success);
		}
	RETURN(fail("memory of the host was freed that is not pinned", invalidValue));
}

static int check(const void *to, const void *from, size_t n, int kind) {
	int src = onDevice(from), dst = onDevice(to);
	if (n == 0)
		return success;
	if (kind != anyDirection && (src != (kind == deviceToHost || kind == deviceToDevice) || dst != (kind == hostToDevice || kind == deviceToDevice)))
		return fail("a copy's direction is not that of its memory", invalidValue);
	if (!inside(to, n) || !inside(from, n))
		return fail("a copy exceeds the memory that is allocated", invalidValue);
	if (src && dst)
		count.onDevice++;
	else if (src)
		count.toHost++;
	else if (dst)
		count.toDevice++;
	return success;
}

API int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *s) {
	LOCK;
	int code = check(to, from, n, kind);
	if (code || n == 0)
		RETURN(code);
	op o = {copyOp, 0, to, from, n};
	if (!onDevice(from) && !find(pinned, from)) { // pageable memory is read before the call returns
		o.from = o.arg = malloc(n);
		memcpy(o.arg, from, n);
	}
	push(s, o);
	if (!onDevice(to) && !find(pinned, to)) // and written, too
		drain(of(s), now);
	RETURN(success);
}
API int cudaMemcpy(void *to, const void *from, size_t n, int kind) {
	LOCK;
	int code = check(to, from, n, kind);
	if (!code && n > 0) {
		push(NULL, (op){copyOp, 0, to, from, n});
		drain(&zero, now);
	}
	RETURN(code);
}
API int cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height, int kind, void *s) {
	for (size_t i = 0; i < height; i++) {
		int code = cudaMemcpyAsync((char *)to + i * toPitch, (const char *)from + i * fromPitch, width, kind, s);
		if (code)
			return code;
	}
	return success;
}
API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset, int kind) {
	memset(to, 0, n);
	return success;
}
API int cudaMemsetAsync(void *p, int value, size_t n, void *s) {
	LOCK;
	if (!inside(p, n))
		RETURN(fail("memory is set that is not allocated", invalidValue));
	push(s, (op){setOp, 0, p, NULL, n, value});
	RETURN(success);
}
API int cudaMemset(void *p, int value, size_t n) {
	int code = cudaMemsetAsync(p, value, n, NULL);
	LOCK;
	drain(&zero, now);
	RETURN(code);
}

struct pointerAttributes {
	int type, device;
	void *onDevice, *onHost;
	long reserved[8];
};
API int cudaPointerGetAttributes(struct pointerAttributes *a, const void *p) {
	LOCK;
	memset(a, 0, sizeof *a);
	a->type = onDevice(p) ? device : find(pinned, p) ? pinnedHost : unregistered;
	*(onDevice(p) ? &a->onDevice : &a->onHost) = (void *)p;
	RETURN(success);
}
API int cudaMemGetInfo(size_t *available, size_t *total) {
	*available = capacity - top;
	*total = capacity;
	return success;
}

// Streams and events.

API int cudaStreamCreateWithFlags(void **s, unsigned flags) {
	LOCK;
	stream *t = malloc(sizeof *t);
	*t = (stream){NULL, &t->head, flags & 1, streams};
	streams = t;
	count.streams++;
	*s = t;
	RETURN(success);
}
API int cudaStreamCreate(void **s) { return cudaStreamCreateWithFlags(s, 0); }
API int cudaStreamDestroy(void *s) {
	LOCK;
	for (stream **t = &streams; *t; t = &(*t)->next)
		if (*t == s) {
			drain(*t, now);
			*t = (*t)->next; // events may still name it, so it is not freed
			count.destroyedStreams++;
			RETURN(success);
		}
	RETURN(fail("a stream was destroyed that does not exist", invalidValue));
}
API int cudaStreamSynchronize(void *s) {
	LOCK;
	drain(of(s), now);
	RETURN(success);
}
API int cudaDeviceSynchronize(void) {
	LOCK;
	drainAll();
	RETURN(success);
}
API int cudaStreamWaitEvent(void *s, event *e, unsigned flags) {
	LOCK;
	if (e->s && e->s != of(s))
		push(s, (op){.kind = waitOp, .other = e->s, .until = e->at});
	RETURN(success);
}
API int cudaLaunchHostFunc(void *s, void (*call)(void *), void *arg) {
	LOCK;
	push(s, (op){.kind = hostOp, .call = call, .arg = arg});
	RETURN(success);
}
API int cudaStreamIsCapturing(void *s, int *status) {
	*status = 0;
	return success;
}
API int cudaEventCreateWithFlags(event **e, unsigned flags) {
	*e = calloc(1, sizeof **e);
	return success;
}
API int cudaEventCreate(event **e) { return cudaEventCreateWithFlags(e, 0); }
API int cudaEventDestroy(event *e) {
	free(e);
	return success;
}
API int cudaEventRecordWithFlags(event *e, void *s, unsigned flags) {
	LOCK;
	*e = (event){of(s), now};
	RETURN(success);
}
API int cudaEventRecord(event *e, void *s) { return cudaEventRecordWithFlags(e, s, 0); }
API int cudaEventSynchronize(event *e) {
	LOCK;
	if (e->s)
		drain(e->s, e->at);
	RETURN(success);
}
API int cudaEventElapsedTime(float *ms, event *a, event *b) {
	*ms = 1;
	return success;
}

// The device: one GPU of compute capability 9.0.

API int cudaGetDeviceCount(int *n) {
	*n = 1;
	return success;
}
API int cudaGetDevice(int *d) {
	*d = 0;
	return success;
}
API int cudaSetDevice(int d) { return d == 0 ? success : (lastError = invalidDevice); }

// The offsets are those of cudaDeviceProp in CUDA 13's driver_types.h.
API int cudaGetDeviceProperties(char *p, int d) {
	if (d != 0)
		return lastError = invalidDevice;
	memset(p, 0, 1008);
	strcpy(p, "fakecuda");
	static const struct { int at, value; } ints[] = {
		{304, 65536}, {308, 32}, {320, 1024}, {324, 1024}, {328, 1024}, {332, 64}, {336, 2147483647}, {340, 65535}, {344, 65535},
		{360, 9}, {364, 0}, {384, 132}, {560, 1}, {584, 3}, {596, 50 << 20}, {604, 2048}, {632, 65536},
	};
	for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
		memcpy(p + ints[i].at, &ints[i].value, sizeof(int));
	static const struct { int at; size_t value; } sizes[] = {{288, (size_t)1 << 32}, {296, 49152}, {352, 65536}, {624, 233472}, {672, 232448}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		memcpy(p + sizes[i].at, &sizes[i].value, sizeof(size_t));
	return success;
}
API int cudaDeviceGetAttribute(int *v, int attribute, int d) {
	static const struct { int attribute, value; } known[] = {
		{1, 1024}, {16, 132}, {75, 9}, {76, 0}, {97, 232448}, {115, 1}, // threads, processors, capability, shared memory, pools
	};
	*v = 1;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].attribute == attribute)
			*v = known[i].value;
	return success;
}
API int cudaDriverGetVersion(int *v) {
	*v = 13010;
	return success;
}
API int cudaRuntimeGetVersion(int *v) {
	*v = 13000;
	return success;
}
API int cudaGetDriverEntryPointByVersion(const char *name, void **p, unsigned version, unsigned long long flags, int *result) {
	*p = NULL;
	if (result)
		*result = 1;
	return symbolNotFound;
}

API int cudaGetLastError(void) {
	int e = lastError;
	lastError = success;
	return e;
}
API int cudaPeekAtLastError(void) { return lastError; }
API const char *cudaGetErrorName(int e) { return e == invalidDevice ? "cudaErrorInvalidDevice" : e == outOfMemory ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue"; }
API const char *cudaGetErrorString(int e) { return e == invalidDevice ? "invalid device ordinal" : e == outOfMemory ? "out of memory" : "invalid argument"; }

// Memory pools and graphs. A captured graph is empty, since kernels do nothing.

static char handle[64];

API int cudaMemPoolCreate(void **p, const void *props) {
	*p = handle;
	return success;
}
API int cudaMemPoolGetAttribute(void *p, int attribute, void *v) {
	memset(v, 0, 8);
	return success;
}
API int cudaStreamEndCapture(void *s, void **graph) {
	*graph = handle;
	return success;
}
API int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags) {
	*exec = handle;
	return success;
}

// Kernels.

struct dim3 {
	unsigned x, y, z;
};

static int launch(void) {
	__atomic_add_fetch(&count.launches, 1, __ATOMIC_RELAXED);
	return success;
}
API int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **a, size_t s, void *t) { return launch(); }
API int __cudaLaunchKernel(void *f, struct dim3 g, struct dim3 b, void **a, size_t s, void *t) { return launch(); }
API int cudaLaunchCooperativeKernel(const void *f, struct dim3 g, struct dim3 b, void **a, size_t s, void *t) { return launch(); }
API int cudaLaunchKernelExC(const void *config, const void *f, void **a) { return launch(); }

static __thread struct {
	struct dim3 grid, block;
	size_t shared;
	void *stream;
} call;

API unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block_, size_t shared, void *s) {
	call.grid = grid, call.block = block_, call.shared = shared, call.stream = s;
	return 0;
}
API int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block_, size_t *shared, void *s) {
	*grid = call.grid, *block_ = call.block, *shared = call.shared, *(void **)s = call.stream;
	return success;
}
API int __cudaGetKernel(void **k, const void *f) {
	*k = (void *)f;
	return success;
}
API int cudaLibraryLoadData(void **l) {
	*l = handle;
	return success;
}
API int cudaLibraryGetKernel(void **k, void *l, const char *name) {
	*k = handle;
	return success;
}
API void **__cudaRegisterFatBinary(void *image) { return (void **)handle; }
API int cudaFuncGetAttributes(char *a, const void *f) {
	static const int threads = 1024, version = 90;
	memset(a, 0, 144);
	memcpy(a + 24, &threads, sizeof threads);
	memcpy(a + 32, &version, sizeof version);
	memcpy(a + 36, &version, sizeof version);
	return success;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s, unsigned flags) {
	*n = 2;
	return success;
}
