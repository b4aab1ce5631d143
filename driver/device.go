package driver

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/tensor"
)

// Device is a device, in ONNX Runtime's terms. The zero Device is the CPU.
type Device struct {
	// Type is ONNX Runtime's name of the kind of device: cpu, cuda, cann, dml, webgpu,
	// gpu or npu. The empty string is the CPU.
	Type string
	// ID tells devices of one type apart.
	ID int
}

// ParseDevice reads "type" or "type:id": "cpu", "cuda:1", or as ONNX writes it
// "CUDA:1". The case of the type does not matter, and the id defaults to 0. The empty
// string is the CPU.
func ParseDevice(s string) (Device, error) {
	name, id, hasID := strings.Cut(s, ":")
	d := Device{Type: strings.ToLower(name)}
	if hasID {
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return Device{}, Errorf(InvalidArgument, "the id of device %q must be a number", s)
		}
		d.ID = int(n)
	}
	return d.Resolve()
}

// IsCPU reports whether d is the CPU.
func (d Device) IsCPU() bool { return d.Type == "" || d.Type == "cpu" }

// String writes the device as "cuda:0"; the CPU is "cpu".
func (d Device) String() string {
	if d.IsCPU() {
		return "cpu"
	}
	return d.Type + ":" + strconv.Itoa(d.ID)
}

var deviceTypes = []string{"cpu", "cuda", "cann", "dml", "webgpu", "gpu", "npu"}

// Resolve checks the device and returns it with its type spelt out.
func (d Device) Resolve() (Device, error) {
	if d.Type == "" {
		d.Type = "cpu"
	}
	if !slices.Contains(deviceTypes, d.Type) {
		return d, Errorf(InvalidArgument, "Unsupported device type: %s", d.Type)
	}
	if d.ID < 0 || d.IsCPU() && d.ID != 0 {
		return d, Errorf(InvalidArgument, "there is no device %s:%d", d.Type, d.ID)
	}
	return d, nil
}

// DeviceTensor is a tensor in the memory of a device other than the CPU.
type DeviceTensor interface {
	// Device returns where the memory is.
	Device() Device
	// DType returns the type of the elements.
	DType() tensor.DType
	// Shape returns the dimensions.
	Shape() []int
	// Pointer returns the address of the first element in the device's memory.
	Pointer() unsafe.Pointer
	// CopyTo copies the elements to a tensor of the same type and size on the CPU.
	CopyTo(t *tensor.Tensor) error
	// CopyFrom copies the elements from a tensor of the same type and size on the CPU.
	CopyFrom(t *tensor.Tensor) error
}
