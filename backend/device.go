package backend

import (
	"fmt"
	"strconv"
	"strings"
)

// DeviceType is a kind of device, numbered as onnx.backend.base.DeviceType.
type DeviceType int

// The kinds of devices.
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

// Device is a device with its number. The zero Device is CPU:0.
type Device struct {
	Type DeviceType
	ID   int
}

// String writes the device as "CPU" or "CUDA:1".
func (d Device) String() string {
	if d.ID == 0 {
		return d.Type.String()
	}
	return d.Type.String() + ":" + strconv.Itoa(d.ID)
}

// ParseDevice reads "TYPE" or "TYPE:id", such as "CPU" or "CUDA:1". The type is
// case-sensitive; the id is 0 when it is left out. The empty string is the CPU.
func ParseDevice(s string) (Device, error) {
	if s == "" {
		return Device{}, nil
	}
	name, id, hasID := strings.Cut(s, ":")
	var d Device
	switch name {
	case "CPU":
	case "CUDA":
		d.Type = DeviceCUDA
	default:
		return d, fmt.Errorf("backend: unknown device type %q in %q, want CPU or CUDA", name, s)
	}
	if hasID {
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return d, fmt.Errorf("backend: device id %q in %q is not a number", id, s)
		}
		d.ID = int(n)
	}
	return d, nil
}
