package calibration

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/onward-ml/onward/internal/flatbuf"
)

// The schema is ONNX Runtime's ort_trt_int8_cal_table.fbs:
//
//	table TrtTable { dict:[KeyValue]; }
//	table KeyValue { key:string; value:string; }
//	root_type TrtTable;
//
// Values are decimal numbers. ONNX Runtime's TensorRT provider reads them as the dynamic
// ranges of the tensors (ReadDynamicRange).

// The indices of the fields in their tables.
const (
	fieldDict  = 0
	fieldKey   = 0
	fieldValue = 1
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
		b.PrependUOffsetTSlot(fieldKey, key, 0)
		b.PrependUOffsetTSlot(fieldValue, value, 0)
		entries = append(entries, b.EndObject())
	}
	b.StartVector(4, len(entries), 4)
	for _, e := range entries {
		b.PrependUOffsetT(e)
	}
	dict := b.EndVector(len(entries))
	b.StartObject(1)
	b.PrependUOffsetTSlot(fieldDict, dict, 0)
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
	if len(data) > MaxTableSize {
		return nil, fmt.Errorf("got %d bytes, want at most %d", len(data), MaxTableSize)
	}
	r := flatbuf.NewReader(data)
	root, err := r.Root()
	if err != nil {
		return nil, err
	}
	dict, err := r.Tables(root, fieldDict)
	if err != nil {
		return nil, fmt.Errorf("field dict: %w", err)
	}
	t := NewTable(MinMax)
	for i, entry := range dict {
		key, err := r.Text(entry, fieldKey)
		if err != nil {
			return nil, fmt.Errorf("entry %d: field key: %w", i, err)
		}
		value, err := r.Text(entry, fieldValue)
		if err != nil {
			return nil, fmt.Errorf("entry %d: field value: %w", i, err)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return nil, fmt.Errorf("entry %d: value %.40q is not a number", i, value)
		}
		ranged, err := symmetric(v)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		if _, ok := t.Ranges[key]; ok {
			return nil, fmt.Errorf("entry %d: duplicate key %.200q", i, key)
		}
		t.Ranges[key] = ranged
	}
	return t, nil
}
