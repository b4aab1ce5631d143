package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestSafetensors reads a file that the safetensors package for Python has written.
func TestSafetensors(t *testing.T) {
	r, err := ReadSafetensorsFile("testdata/small.safetensors", 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*Tensor{
		"w":      Must(New([]float32{0, 1, 2, 3, 4, 5}, 2, 3)),
		"half":   Must(New([]Float16{NewFloat16(1.5), NewFloat16(-2)}, 2)),
		"ids":    Must(New([]int64{7}, 1, 1)),
		"flag":   Must(New([]bool{true, false}, 2)),
		"empty":  Must(New([]uint8{}, 0, 3)),
		"scalar": Scalar(2.5),
	} {
		if r[name] == nil {
			t.Errorf("%s is missing", name)
		} else if err := Equal(r[name], want); err != nil || !slices.Equal(r[name].Shape(), want.Shape()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(r) != 6 {
		t.Errorf("got %d tensors, want 6", len(r))
	}
}

func safetensors(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestSafetensorsErrors(t *testing.T) {
	for want, b := range map[string][]byte{
		"unexpected EOF":               {1, 2},
		"at most 100000000":            {0, 0, 0, 0, 0, 0, 0, 1},
		"invalid character":            safetensors(`x`, 0),
		"unknown element type":         safetensors(`{"a":{"dtype":"Q1","shape":[],"data_offsets":[0,1]}}`, 1),
		"want [0 4]":                   safetensors(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,5]}}`, 5),
		"want [4 8]":                   safetensors(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[],"data_offsets":[2,6]}}`, 6),
		"more bytes after":             safetensors(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 5),
		"2 of 4 bytes":                 safetensors(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 2),
		"negative":                     safetensors(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4),
		"exceeds what is left":         safetensors(`{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}`, 4),
		"are [-1 -1]":                  safetensors(`{"a":{"dtype":"F32","shape":[]}}`, 4),
		"cannot unmarshal string into": safetensors(`{"a":{"dtype":"F32","shape":["x"],"data_offsets":[0,4]}}`, 4),
	} {
		if _, err := ReadSafetensors(bytes.NewReader(b), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	b, err := os.ReadFile("testdata/small.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSafetensors(bytes.NewReader(b), 100); !errors.As(err, new(*LimitError)) {
		t.Errorf("got %v, want a LimitError", err)
	}
}

// TestSafetensorsHeadersKeepTheLimit checks that headers of many small entries do not take more
// memory than the limit.
func TestSafetensorsHeadersKeepTheLimit(t *testing.T) {
	for name, entry := range map[string]string{
		"numbers": `0`, "objects": `{}`, "tensors": `{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`,
		"long shapes": `{"dtype":"U8","shape":[` + strings.Repeat("0,", 1<<20) + `0],"data_offsets":[0,0]}`,
	} {
		var header strings.Builder
		for i := 0; header.Len() < 3<<20; i++ {
			fmt.Fprintf(&header, `,"%x":%s`, i, entry)
		}
		data := safetensors("{"+header.String()[1:]+"}", 0)
		const limit = 32 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadSafetensors(bytes.NewReader(data), limit)
		runtime.ReadMemStats(&after)
		const most = limit * 3 / 2 // with what decoding drops at once
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > most {
			t.Errorf("%s: %v and %d bytes are allocated, want an error and at most %d", name, err, n, most)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	b, err := os.ReadFile("testdata/small.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadSafetensors(bytes.NewReader(b), 1<<20)
		if err == nil && r == nil {
			t.Error("no tensors and no error")
		}
	})
}
