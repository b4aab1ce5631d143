package backend

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onward-ml/onward"
)

// Device is a device of package onward. [ParseDevice] reads it as ONNX writes it.
type Device = onward.Device

// DeviceType is a type of device, numbered as onnx.backend.base.DeviceType.
type DeviceType int

// The types of devices.
const (
	DeviceCPU  DeviceType = 0
	DeviceCUDA DeviceType = 1
)

// String returns the name that [ParseDevice] reads.
func (t DeviceType) String() string {
	switch t {
	case DeviceCPU:
		return "CPU"
	case DeviceCUDA:
		return "CUDA"
	}
	return fmt.Sprintf("DeviceType(%d)", int(t))
}

// TypeOf returns the type of a device. ONNX Runtime's types "gpu" and "cuda" are both
// [DeviceCUDA]. The error says that ONNX has no such type.
func TypeOf(d Device) (DeviceType, error) {
	switch kind(d) {
	case "cpu":
		return DeviceCPU, nil
	case "cuda":
		return DeviceCUDA, nil
	}
	return 0, invalid("device type %q is not one of ONNX's, want cpu or cuda", d.Type)
}

// kind returns the type of a device with one name for equal types.
func kind(d Device) string {
	switch d.Type {
	case "":
		return "cpu"
	case "gpu":
		return "cuda"
	}
	return d.Type
}

// ParseDevice reads "TYPE" or "TYPE:id", such as "CPU" or "CUDA:1". The type is case-sensitive; the
// id defaults to 0. Beside ONNX's types there is "WEBGPU". "GPU", which [onward.GetDevice] returns,
// is the same as "CUDA". The empty string is the CPU.
func ParseDevice(s string) (Device, error) {
	if s == "" {
		s = "CPU"
	}
	name, id, hasID := strings.Cut(s, ":")
	var d Device
	switch name {
	case "CPU":
		d.Type = "cpu"
	case "CUDA", "GPU":
		d.Type = "cuda"
	case "WEBGPU":
		d.Type = "webgpu"
	default:
		return d, invalid("unknown device type %q in %q, want CPU, CUDA, GPU or WEBGPU", name, s)
	}
	if hasID {
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return d, invalid("device id %q in %q is not a number of at most 31 bits", id, s)
		}
		d.ID = int(n)
	}
	return d, nil
}

// deviceName writes a device as [ParseDevice] reads it: "CPU" or "CUDA:1".
func deviceName(d Device) string {
	name := strings.ToUpper(d.Type)
	if t, err := TypeOf(d); err == nil {
		name = t.String()
	}
	if d.ID == 0 {
		return name
	}
	return name + ":" + strconv.Itoa(d.ID)
}
