package driver

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/tensor"
)

// Device identifies a device as ONNX Runtime does. The zero Device is the CPU.
type Device struct {
	// Type is ONNX Runtime's name of the device type: cpu, cuda, cann, dml, webgpu, gpu
	// or npu. The empty string is the CPU.
	Type string
	// ID distinguishes devices of one type.
	ID int
}

// ParseDevice parses "type" or "type:id", such as "cpu", "cuda:1", or "CUDA:1" as ONNX
// writes it. The case of the type is ignored. The id defaults to 0. The empty string is
// the CPU.
func ParseDevice(s string) (Device, error) {
	name, id, hasID := strings.Cut(s, ":")
	d := Device{Type: strings.ToLower(name)}
	if hasID {
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return Device{}, Errorf(CodeInvalidArgument, "the id of device %q must be a number", s)
		}
		d.ID = int(n)
	}
	return d.Resolve()
}

// IsCPU reports whether d is the CPU.
func (d Device) IsCPU() bool { return d.Type == "" || d.Type == "cpu" }

// String returns the device as "cuda:0", and the CPU as "cpu".
func (d Device) String() string {
	if d.IsCPU() {
		return "cpu"
	}
	return d.Type + ":" + strconv.Itoa(d.ID)
}

var deviceTypes = []string{"cpu", "cuda", "cann", "dml", "webgpu", "gpu", "npu"}

// Resolve returns the device with the type "cpu" if its type is empty, or an error if
// the type or the id is invalid.
func (d Device) Resolve() (Device, error) {
	if d.Type == "" {
		d.Type = "cpu"
	}
	if !slices.Contains(deviceTypes, d.Type) {
		return d, Errorf(CodeInvalidArgument, "Unsupported device type: %s", d.Type)
	}
	if d.ID < 0 || d.IsCPU() && d.ID != 0 {
		return d, Errorf(CodeInvalidArgument, "device %s:%d does not exist", d.Type, d.ID)
	}
	return d, nil
}

// DeviceTensor is a tensor in the memory of a device other than the CPU.
type DeviceTensor interface {
	// Device returns the device of the memory.
	Device() Device
	// DType returns the element type.
	DType() tensor.DType
	// Shape returns the dimensions.
	Shape() []int
	// Pointer returns the address of the first element in the device's memory.
	Pointer() unsafe.Pointer
	// CopyTo copies the elements to a tensor of the same type and size on the CPU.
	CopyTo(t *tensor.Tensor) error
	// CopyFrom copies the elements from a tensor of the same type and size on the CPU.
	CopyFrom(t *tensor.Tensor) error
	// CopyFromDevice copies the elements from a tensor of the same type and size in the
	// memory of a device that the engine can read.
	CopyFromDevice(t DeviceTensor) error
	// Close frees the memory if the engine has allocated it. Without Close it is freed
	// some time after the tensor has become unreachable.
	Close() error
}
