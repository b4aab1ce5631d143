package tensor

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	entries, err := parseSafetensorsHeader(header, b)
	if err != nil {
		return nil, err
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

// safetensorsEntryCost is about what a tensor takes in memory beside its bytes, in bytes.
const safetensorsEntryCost = 512

// maxSafetensorsEntry is the longest description of a tensor in bytes, which has up to 64 sizes.
const maxSafetensorsEntry = 4096

// parseSafetensorsHeader returns the descriptions of the tensors.
func parseSafetensorsHeader(header []byte, b *budget) (entries []safetensorsEntry, err error) {
	d := json.NewDecoder(bytes.NewReader(header))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, fail.Errorf("the header begins with %.20q, want an object (%v)", header[:min(len(header), 20)], err)
	}
	var raw json.RawMessage
	for d.More() {
		key, err := d.Token()
		if err == nil {
			err = d.Decode(&raw)
		}
		if err != nil {
			return nil, fail.Errorf("the header: %w", err)
		}
		name := key.(string)
		if name == "__metadata__" {
			continue
		}
		e := safetensorsEntry{name: name, Offsets: [2]int64{-1, -1}}
		if err = b.take("the header", safetensorsEntryCost+int64(len(name))); err != nil {
			return nil, err
		}
		if len(raw) > maxSafetensorsEntry {
			err = fail.Errorf("the description has %d bytes, want at most %d", len(raw), maxSafetensorsEntry)
		} else if err = json.Unmarshal(raw, &e); err == nil && safetensorsTypes[e.DType] == Undefined {
			err = fail.Errorf("unknown element type %.20q", e.DType)
		}
		if err != nil {
			return nil, fail.Errorf("tensor %.200q: %w", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := d.Token(); err != nil {
		return nil, fail.Errorf("the header: %w", err)
	}
	return entries, nil
}

// read reads the tensor, whose bytes begin at the given offset.
func (e *safetensorsEntry) read(r io.Reader, at int64, b *budget) (*Tensor, error) {
	dtype := safetensorsTypes[e.DType]
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
