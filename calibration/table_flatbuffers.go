package calibration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"
)

// The schema is ONNX Runtime's ort_trt_int8_cal_table.fbs:
//
//	table TrtTable { dict:[KeyValue]; }
//	table KeyValue { key:string; value:string; }
//	root_type TrtTable;
//
// Values are decimal numbers. ONNX Runtime's TensorRT provider reads them as the dynamic
// ranges of the tensors (ReadDynamicRange).

// The vtable slots of the fields.
const (
	slotDict  = 4
	slotKey   = 4
	slotValue = 6
)

// WriteFlatBuffers writes the table for ONNX Runtime's TensorRT provider
// (trt_int8_calibration_table_name). It contains [Range.Dynamic] of each range.
func (t *Table) WriteFlatBuffers(w io.Writer) error {
	b := flatbuffers.NewBuilder(1024)
	var entries []flatbuffers.UOffsetT
	for _, name := range t.Names() {
		key := b.CreateString(name)
		value := b.CreateString(formatFloat(float64(t.Ranges[name].Dynamic())))
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, key, 0)
		b.PrependUOffsetTSlot(1, value, 0)
		entries = append(entries, b.EndObject())
	}
	b.StartVector(4, len(entries), 4)
	for _, e := range entries {
		b.PrependUOffsetT(e)
	}
	dict := b.EndVector(len(entries))
	b.StartObject(1)
	b.PrependUOffsetTSlot(0, dict, 0)
	b.Finish(b.EndObject())
	_, err := w.Write(b.FinishedBytes())
	return err
}

// ParseFlatBuffers reads the format of [Table.WriteFlatBuffers] and ONNX Runtime.
func ParseFlatBuffers(data []byte) (*Table, error) {
	t, err := parseFlatBuffers(data)
	if err != nil {
		return nil, fmt.Errorf("not a FlatBuffers calibration table: %w", err)
	}
	return t, nil
}

func parseFlatBuffers(data []byte) (*Table, error) {
	f := flatReader{data: data, budget: 4*len(data) + 1024}
	if len(data) > MaxTableSize {
		return nil, fmt.Errorf("got %d bytes, want at most %d", len(data), MaxTableSize)
	}
	root, err := f.indirect(0)
	if err != nil {
		return nil, err
	}
	dict, err := f.field(root, slotDict)
	if err != nil {
		return nil, fmt.Errorf("field dict: %w", err)
	}
	t := NewTable(MinMax)
	if dict < 0 {
		return t, nil
	}
	n, at, err := f.vector(dict, 4)
	if err != nil {
		return nil, fmt.Errorf("field dict: %w", err)
	}
	for i := range n {
		key, value, err := f.keyValue(at + 4*i)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return nil, fmt.Errorf("entry %d: value %.40q is not a number", i, value)
		}
		r, err := symmetric(v)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		if _, ok := t.Ranges[key]; ok {
			return nil, fmt.Errorf("entry %d: duplicate key %.200q", i, key)
		}
		t.Ranges[key] = r
	}
	return t, nil
}

// flatReader reads FlatBuffers and checks all bounds; the accessors of the library panic on
// invalid offsets. budget bounds the total size of the strings in bytes, since they may
// overlap.
type flatReader struct {
	data   []byte
	budget int
}

var errOutside = errors.New("offset points outside the data")

// has reports whether the data contains n bytes at an offset.
func (f *flatReader) has(at, n int) bool {
	return at >= 0 && n >= 0 && at <= len(f.data) && n <= len(f.data)-at
}

// indirect returns the target of a relative offset.
func (f *flatReader) indirect(at int) (int, error) {
	if !f.has(at, 4) {
		return 0, errOutside
	}
	to := int64(at) + int64(binary.LittleEndian.Uint32(f.data[at:]))
	if to > int64(len(f.data)-4) {
		return 0, errOutside
	}
	return int(to), nil
}

// field returns the target of a table's field, which is an offset, or -1 if the field is
// missing.
func (f *flatReader) field(table, slot int) (int, error) {
	if !f.has(table, 4) {
		return 0, errOutside
	}
	vtable := int64(table) - int64(int32(binary.LittleEndian.Uint32(f.data[table:])))
	if vtable < 0 || vtable > int64(len(f.data)-4) {
		return 0, errOutside
	}
	size := int(binary.LittleEndian.Uint16(f.data[vtable:]))
	if !f.has(int(vtable), size) {
		return 0, errOutside
	}
	if slot+2 > size {
		return -1, nil
	}
	offset := int(binary.LittleEndian.Uint16(f.data[int(vtable)+slot:]))
	if offset == 0 {
		return -1, nil
	}
	return f.indirect(table + offset)
}

// vector returns the length of a vector and the offset of its first element.
func (f *flatReader) vector(at, width int) (n, first int, err error) {
	if !f.has(at, 4) {
		return 0, 0, errOutside
	}
	count := int64(binary.LittleEndian.Uint32(f.data[at:]))
	if count > int64(len(f.data)-at-4)/int64(width) {
		return 0, 0, fmt.Errorf("vector of %d elements exceeds the data", count)
	}
	return int(count), at + 4, nil
}

func (f *flatReader) keyValue(at int) (key, value string, err error) {
	entry, err := f.indirect(at)
	if err != nil {
		return "", "", err
	}
	if key, err = f.text(entry, slotKey, "key"); err != nil {
		return "", "", err
	}
	value, err = f.text(entry, slotValue, "value")
	return key, value, err
}

func (f *flatReader) text(table, slot int, name string) (string, error) {
	at, err := f.field(table, slot)
	if err != nil {
		return "", fmt.Errorf("field %s: %w", name, err)
	}
	if at < 0 {
		return "", fmt.Errorf("field %s is missing", name)
	}
	n, first, err := f.vector(at, 1)
	if err != nil {
		return "", fmt.Errorf("field %s: %w", name, err)
	}
	if f.budget -= n + 8; f.budget < 0 {
		return "", errors.New("strings overlap")
	}
	return string(f.data[first : first+n]), nil
}
