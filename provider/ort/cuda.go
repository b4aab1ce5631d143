package ort

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
)

// cudaDevices returns the number of CUDA devices that the process may use. It asks CUDA's
// runtime, the one that ONNX Runtime's CUDA provider links, because that honours
// CUDA_VISIBLE_DEVICES. If that runtime is unknown, it asks the driver.
func cudaDevices(r *library) (int, error) {
	for _, name := range cudaRuntimes(r.sibling("cuda")) {
		l, err := dl.Open(name, []dl.Place{{Path: name}}, nil)
		if err != nil {
			continue
		}
		if count, err := l.Symbol("cudaGetDeviceCount"); err == nil {
			return countDevices(name, func(n *int32) int32 { return int32(dl.Call(count, uintptr(unsafe.Pointer(n)))) })
		}
	}
	driver := "libcuda.so.1"
	if runtime.GOOS == "windows" {
		driver = "nvcuda.dll"
	}
	l, err := dl.Open("NVIDIA's driver", []dl.Place{{Source: "the system's loader", Path: driver}}, nil)
	if err != nil {
		return 0, err
	}
	start, err := l.Symbol("cuInit")
	if err != nil {
		return 0, err
	}
	count, err := l.Symbol("cuDeviceGetCount")
	if err != nil {
		return 0, err
	}
	return countDevices(driver, func(n *int32) int32 {
		if st := int32(dl.Call(start, 0)); st != 0 {
			return st
		}
		return int32(dl.Call(count, uintptr(unsafe.Pointer(n))))
	})
}

// countDevices calls a function of CUDA that stores the number of devices. Its status for a
// machine without a device is the same in the runtime and in the driver.
func countDevices(library string, count func(n *int32) int32) (int, error) {
	const noDevice = 100 // cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE
	n := new(int32)      // on the heap, because C writes to it
	switch st := count(n); st {
	case 0:
		return int(*n), nil
	case noDevice:
		return 0, nil
	default:
		return 0, fmt.Errorf("%s cannot count the devices: CUDA error %d", library, st)
	}
}

// cudaRuntimes returns the names of CUDA's runtime that a library links.
func cudaRuntimes(file string) (names []string) {
	for _, name := range imported(file) {
		if strings.HasPrefix(name, "libcudart.") {
			names = append(names, name)
		}
	}
	return names
}
