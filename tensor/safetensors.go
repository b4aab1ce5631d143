package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"

	"github.com/onward-ml/onward/internal/fail"
)

// maxSafetensorsHeader is the longest header in bytes that the format allows.
const maxSafetensorsHeader = 100_000_000

// safetensorsTypes are the element types of the format.
var safetensorsTypes = map[string]DType{
	"BOOL": TypeBool, "U8": TypeUint8, "I8": TypeInt8, "U16": TypeUint16, "I16": TypeInt16, "U32": TypeUint32,
	"I32": TypeInt32,
	"U64": TypeUint64, "I64": TypeInt64, "F16": TypeFloat16, "BF16": TypeBFloat16, "F32": TypeFloat32,
	"F64": TypeFloat64, "C64": TypeComplex64,
	"F8_E4M3": TypeFloat8E4M3FN, "F8_E5M2": TypeFloat8E5M2, "F8_E8M0": TypeFloat8E8M0,
}

// safetensorsEntry is the description of a tensor in the header.
type safetensorsEntry struct {
	name    string
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // of its bytes, from the end of the header
}

// ReadSafetensors reads the tensors of a safetensors file
// (https://github.com/huggingface/safetensors#format) by name. limit bounds the memory in bytes
// that reading takes; 0 means [DefaultLimit].
func ReadSafetensors(r io.Reader, limit int64) (map[string]*Tensor, error) {
	t, err := readSafetensors(r, newBudget(limit))
	if err != nil {
		return nil, fail.Errorf("safetensors: %w", noEOF(err))
	}
	return t, nil
}

func readSafetensors(r io.Reader, b *budget) (map[string]*Tensor, error) {
	var size uint64
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, err
	}
	if size > maxSafetensorsHeader {
		return nil, fail.Errorf("the header has %d bytes, want at most %d", size, maxSafetensorsHeader)
	}
	if err := b.take("the header", 4*int64(size)); err != nil { // its parsed form, too
		return nil, err
	}
	header, err := readGrowing(r, int(size))
	if err != nil {
		return nil, err
	}
	raw := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(header))
	if err := d.Decode(&raw); err != nil {
		return nil, fail.Errorf("the header: %w", err)
	}
	delete(raw, "__metadata__")
	entries := make([]safetensorsEntry, 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		e := safetensorsEntry{name: name, Offsets: [2]int64{-1, -1}}
		if err := json.Unmarshal(raw[name], &e); err != nil {
			return nil, fail.Errorf("tensor %.200q: %w", name, err)
		}
		entries = append(entries, e)
	}
	sort.SliceStable(entries, func(i, k int) bool {
		a, b := entries[i].Offsets, entries[k].Offsets
		return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
	})
	tensors, at := make(map[string]*Tensor, len(entries)), int64(0)
	for _, e := range entries {
		t, err := e.read(r, at, b)
		if err != nil {
			return nil, fail.Errorf("tensor %.200q: %w", e.name, err)
		}
		tensors[e.name], at = t, e.Offsets[1]
	}
	var more [1]byte
	if _, err := io.ReadFull(r, more[:]); err == nil {
		return nil, fail.Errorf("the file has more bytes after its tensors, which end at byte %d", at)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return tensors, nil
}

// read reads the tensor, whose bytes begin at the given offset.
func (e *safetensorsEntry) read(r io.Reader, at int64, b *budget) (*Tensor, error) {
	dtype, ok := safetensorsTypes[e.DType]
	if !ok {
		return nil, fail.Errorf("unknown element type %.20q", e.DType)
	}
	n, err := ByteLen(dtype, e.Shape)
	if err != nil {
		return nil, err
	}
	if e.Offsets[0] != at || e.Offsets[1]-at != int64(n) {
		return nil, fail.Errorf("data_offsets are %v, want [%d %d] for %s%v after the previous tensor", e.Offsets, at,
			at+int64(n), dtype, e.Shape)
	}
	if err := b.take(fmt.Sprintf("tensor %.200q", e.name), int64(n)); err != nil {
		return nil, err
	}
	data, err := readGrowing(r, n)
	if err != nil {
		return nil, err
	}
	return FromBytes(dtype, data, e.Shape...)
}

// ReadSafetensorsFile reads a safetensors file, see [ReadSafetensors].
func ReadSafetensorsFile(path string, limit int64) (map[string]*Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := ReadSafetensors(f, limit)
	if err != nil {
		return nil, fail.Errorf("read %q: %w", path, err)
	}
	return t, nil
}
