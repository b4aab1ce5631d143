// As much of TensorRT and its ONNX parser as ONNX Runtime's provider needs to load and to find
// that they support no node.
//
// All methods return the address of one object, whose lower 32 bits are zero: so methods that
// return an object return one, those that return a number 0, and those that return a bool
// false.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

static void **object;

static void *it(void) { return object; }
static void *none(void) { return NULL; }

__attribute__((constructor)) static void start(void) {
	for (uintptr_t at = (uintptr_t)0x5000 << 32; !object && at < (uintptr_t)0x6000 << 32; at += (uintptr_t)1 << 32) {
		void *p = mmap((void *)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (p == (void *)at)
			object = p;
		else if (p != MAP_FAILED)
			munmap(p, 4096);
	}
	if (!object)
		abort();
	void **table = object + 16;
	for (int i = 0; i < 256; i++)
		table[i] = it;
	table[18] = none; // nvonnxparser::IParser::getNbSubgraphs, of 64 bits
	object[0] = table; // of virtual methods
	for (int i = 1; i < 16; i++)
		object[i] = object; // the implementation, to which the classes' inline methods delegate
}

int getInferLibVersion(void) { return 101300; }
void *createInferBuilder_INTERNAL(void *logger, int version) { return object; }
void *createInferRuntime_INTERNAL(void *logger, int version) { return object; }
void *createNvOnnxParser_INTERNAL(void *network, void *logger, int version) { return object; }
void *getPluginRegistry(void) { return object; }
