package calibration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// formatFloat formats a number as Python's repr does: the shortest digits that parse to the
// same number, with an exponent below 1e-4 and from 1e16.
func formatFloat(v float64) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	}
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// WriteCache writes a line "name value" for each tensor, sorted by name. The value is
// [Range.Dynamic].
func (t *Table) WriteCache(w io.Writer) error {
	var b bytes.Buffer
	for _, name := range t.Names() {
		if strings.ContainsAny(name, "\r\n") {
			return fmt.Errorf("the name of tensor %q contains a line break, which the cache format does not allow",
				name)
		}
		fmt.Fprintf(&b, "%s %s\n", name, formatFloat(float64(t.Ranges[name].Dynamic())))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// ParseCache reads lines "name value", or TensorRT's own calibration cache. That begins with
// "TRT-" and has lines "name: scale". A scale is 1/127 of the dynamic range, as the bits of
// a float32 in hexadecimal.
func ParseCache(data []byte) (*Table, error) {
	t := NewTable(MinMax)
	native := false
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if n == 1 && strings.HasPrefix(line, "TRT-") {
			native = true
			continue
		}
		if line == "" {
			continue
		}
		name, v, err := cacheLine(line, native)
		if err != nil {
			return nil, fmt.Errorf("calibration cache, line %d: %w", n, err)
		}
		r, err := symmetric(v)
		if err != nil {
			return nil, fmt.Errorf("calibration cache, line %d: %w", n, err)
		}
		if _, ok := t.Ranges[name]; ok {
			return nil, fmt.Errorf("calibration cache, line %d: duplicate tensor %.200q", n, name)
		}
		t.Ranges[name] = r
	}
	return t, nil
}

func cacheLine(line string, native bool) (name string, v float64, err error) {
	sep := " "
	if native {
		sep = ":"
	}
	i := strings.LastIndex(line, sep)
	if i < 0 {
		return "", 0, fmt.Errorf("%.80q, want a name, %q and a number", line, sep)
	}
	name, text := line[:i], strings.TrimSpace(line[i+1:])
	if native {
		bits, err := strconv.ParseUint(text, 16, 32)
		if err != nil {
			return "", 0, fmt.Errorf("scale %.40q, want eight hexadecimal digits", text)
		}
		return name, float64(math.Float32frombits(uint32(bits)) * 127), nil
	}
	if v, err = strconv.ParseFloat(text, 64); err != nil {
		return "", 0, fmt.Errorf("value %.40q is not a number", text)
	}
	return name, v, nil
}

// The JSON format is Python's json.dumps of ONNX Runtime's TensorsData: float32 numbers of
// NumPy are plain, arrays are objects with data, dtype and CLS.

// WriteJSON writes the table as JSON with methods and histograms.
func (t *Table) WriteJSON(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`{"CLS": "TensorsData", "data": {`)
	for i, name := range t.Names() {
		r := t.Ranges[name]
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(pythonString(name))
		b.WriteString(`: {"lowest": `)
		writeArray(&b, []float32{r.Lowest}, "float32", func(v float32) string { return formatFloat(float64(v)) })
		b.WriteString(`, "highest": `)
		writeArray(&b, []float32{r.Highest}, "float32", func(v float32) string { return formatFloat(float64(v)) })
		if r.Hist != nil {
			b.WriteString(`, "hist": `)
			writeArray(&b, r.Hist, "int64", func(v int64) string { return strconv.FormatInt(v, 10) })
			b.WriteString(`, "bins": `)
			writeArray(&b, r.Edges, "float32", func(v float32) string { return formatFloat(float64(v)) })
		}
		b.WriteString(`, "CLS": "TensorData"}`)
	}
	fmt.Fprintf(&b, `}, "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.%s"}}`, t.Method)
	_, err := w.Write(b.Bytes())
	return err
}

func writeArray[T any](b *bytes.Buffer, s []T, dtype string, format func(T) string) {
	b.WriteString(`{"data": [`)
	for i, v := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(format(v))
	}
	fmt.Fprintf(b, `], "dtype": %q, "CLS": "numpy.array"}`, dtype)
}

// pythonString returns a JSON string in ASCII, as json.dumps does.
func pythonString(s string) string {
	quoted, _ := json.Marshal(s) // encoding a string does not fail
	var b strings.Builder
	for _, r := range strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted)) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// ParseJSON reads calibration.json: ONNX Runtime's TensorsData, its field data, or an object
// with a number or a pair of numbers for each name.
func ParseJSON(data []byte) (*Table, error) {
	if len(data) > MaxTableSize {
		return nil, fmt.Errorf("calibration.json has %d bytes, want at most %d", len(data), MaxTableSize)
	}
	t, err := parseJSON(data)
	if err != nil {
		return nil, fmt.Errorf("not a calibration.json: %w", err)
	}
	return t, nil
}

func parseJSON(data []byte) (*Table, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	t := NewTable(MinMax)
	if class := (struct{ CLS string }{}); json.Unmarshal(data, &class) == nil && class.CLS == "TensorsData" {
		var method struct{ Value string }
		if m := top["calibration_method"]; m != nil {
			if err := json.Unmarshal(m, &method); err != nil {
				return nil, fmt.Errorf("calibration_method: %w", err)
			}
		}
		name := strings.TrimPrefix(method.Value, "CalibrationMethod.")
		found := name == ""
		for m, n := range methodNames {
			if n == name {
				t.Method, found = Method(m), true
			}
		}
		if !found {
			return nil, fmt.Errorf("calibration_method is %.80q, want MinMax, Entropy or Percentile", method.Value)
		}
		inner := top["data"]
		top = nil
		if err := json.Unmarshal(inner, &top); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	for name, raw := range top {
		r, err := parseRange(raw)
		if err != nil {
			return nil, fmt.Errorf("tensor %.200q: %w", name, err)
		}
		t.Ranges[name] = r
	}
	return t, nil
}

func parseRange(raw json.RawMessage) (r Range, err error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] != '{' {
		var v []float64
		if raw[0] != '[' {
			raw = append(append(json.RawMessage("["), raw...), ']')
		}
		if err := json.Unmarshal(raw, &v); err != nil {
			return r, err
		}
		switch len(v) {
		case 1:
			return symmetric(v[0])
		case 2:
			return newRange(v[0], v[1])
		}
		return r, fmt.Errorf("got %d numbers, want one or two", len(v))
	}
	var d struct {
		Lowest, Highest, Hist, Bins json.RawMessage
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return r, err
	}
	lo, err := oneNumber(d.Lowest)
	if err != nil {
		return r, fmt.Errorf("lowest: %w", err)
	}
	hi, err := oneNumber(d.Highest)
	if err != nil {
		return r, fmt.Errorf("highest: %w", err)
	}
	if r, err = newRange(lo, hi); err != nil {
		return r, err
	}
	// Some writers store only the first two counts.
	hist, err1 := numbers(d.Hist)
	edges, err2 := numbers(d.Bins)
	if err1 != nil || err2 != nil || len(hist) == 0 || len(edges) != len(hist)+1 {
		return r, nil
	}
	for _, v := range hist {
		if !(v >= 0 && v <= 1<<53) {
			return r, fmt.Errorf("hist contains %g, want a count from 0 to 2⁵³", v)
		}
		r.Hist = append(r.Hist, int64(v))
	}
	for _, v := range edges {
		r.Edges = append(r.Edges, float32(v))
	}
	return r, nil
}

func newRange(lo, hi float64) (Range, error) {
	r := Range{Lowest: float32(lo), Highest: float32(hi)}
	if math.IsInf(float64(r.Lowest), 0) || math.IsInf(float64(r.Highest), 0) || lo > hi {
		return Range{}, fmt.Errorf("range from %g to %g, want finite numbers in ascending order", lo, hi)
	}
	return r, nil
}

// numbers reads a number, an array of numbers, or an object with one of them as data.
func numbers(raw json.RawMessage) (v []float64, err error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, nil
	}
	if raw[0] == '{' {
		var o struct{ Data json.RawMessage }
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		if raw = bytes.TrimSpace(o.Data); len(raw) == 0 {
			return nil, errors.New("the object has no data")
		}
	}
	if raw[0] != '[' {
		v = make([]float64, 1)
		return v, json.Unmarshal(raw, &v[0])
	}
	return v, json.Unmarshal(raw, &v)
}

func oneNumber(raw json.RawMessage) (float64, error) {
	v, err := numbers(raw)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("got %d numbers, want one", len(v))
	}
	return v[0], nil
}
