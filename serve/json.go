package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/onward-ml/onward/tensor"
)

// inferJSON is the JSON of an inference request.
type inferJSON struct {
	// KServe's client repeats the model of the path.
	ModelName    string         `json:"model_name"`
	ModelVersion string         `json:"model_version"`
	ID           string         `json:"id"`
	Parameters   map[string]any `json:"parameters"`
	Inputs       []tensorJSON   `json:"inputs"`
	Outputs      []wantedJSON   `json:"outputs"`
}

type tensorJSON struct {
	Name       string          `json:"name"`
	Shape      []int64         `json:"shape"`
	Datatype   string          `json:"datatype"`
	Parameters map[string]any  `json:"parameters"`
	Data       json.RawMessage `json:"data"`
}

type wantedJSON struct {
	Name       string         `json:"name"`
	Parameters map[string]any `json:"parameters"`
}

// decodeJSON decodes exactly one JSON value without unknown members.
func decodeJSON(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errors.New("the JSON is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("failed to parse the request JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("failed to parse the request JSON: data after the end of the object")
	}
	return nil
}

// parameters converts the parameters of a request in JSON.
func parameters(in map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(in))
	for k, v := range in {
		switch x := v.(type) {
		case bool, string:
			out[k] = x
		case json.Number:
			if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
				out[k] = n
			} else if n, err := strconv.ParseUint(string(x), 10, 64); err == nil {
				out[k] = n
			} else if f, err := x.Float64(); err == nil {
				out[k] = f
			} else {
				return nil, fmt.Errorf("parameter %q is %.32s, which is out of range", k, x)
			}
		default:
			return nil, fmt.Errorf("parameter %q must be a bool, number or string", k)
		}
	}
	return out, nil
}

// decodeInfer decodes the JSON of an inference request and the binary data after it
// (Triton's binary tensor data extension).
func decodeInfer(header, binary []byte) (*request, error) {
	var j inferJSON
	if err := decodeJSON(header, &j); err != nil {
		return nil, err
	}
	r := &request{model: j.ModelName, version: j.ModelVersion, id: j.ID}
	var err error
	if r.params, err = parameters(j.Parameters); err != nil {
		return nil, err
	}
	allBinary, _ := r.params["binary_data_output"].(bool)
	for _, in := range j.Inputs {
		params, err := parameters(in.Parameters)
		shared := false
		if err == nil {
			shared, err = r.addShared(in.Name, in.Datatype, in.Shape, params, in.Data != nil)
		}
		if shared && in.Shape == nil {
			err = errShape
		}
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		if shared {
			continue
		}
		t, rest, err := in.decode(params, binary)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		binary = rest
		r.inputs = append(r.inputs, namedTensor{in.Name, t})
	}
	if len(binary) > 0 {
		return nil, fmt.Errorf("the request has %d bytes after the binary data of its inputs", len(binary))
	}
	for _, o := range j.Outputs {
		w := wanted{name: o.Name, binary: allBinary}
		if o.Parameters, err = parameters(o.Parameters); err == nil {
			err = w.set(o.Parameters)
		}
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", o.Name, err)
		}
		r.outputs = append(r.outputs, w)
	}
	return r, nil
}

// set reads the parameters of a wanted output.
func (w *wanted) set(params map[string]any) error {
	for k, v := range params {
		switch k {
		case "binary_data":
			b, ok := v.(bool)
			if !ok {
				return fmt.Errorf("parameter %q is %v, want a bool", k, v)
			}
			w.binary = b
		case "classification":
			n, err := integer(params, k)
			if err != nil {
				return err
			}
			w.classes = int(min(n, math.MaxInt32))
		case "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size":
		default:
			return fmt.Errorf("unknown parameter %q", k)
		}
	}
	var err error
	w.into, err = areaOf(params)
	return err
}

var errShape = errors.New("the shape is missing")

// addShared adds an input whose parameters name shared memory. It reports false if they name none.
func (r *request) addShared(name, datatype string, shape []int64, params map[string]any, data bool) (bool, error) {
	a, err := areaOf(params)
	if a == nil || err != nil {
		return false, err
	}
	dtype, err := parseDatatype(datatype)
	if err != nil {
		return false, err
	}
	if data || params["binary_data_size"] != nil {
		return false, errors.New("both data and shared_memory_region are given")
	}
	for k := range params {
		if !strings.HasPrefix(k, "shared_memory_") {
			return false, fmt.Errorf("unknown parameter %q", k)
		}
	}
	r.shared = append(r.shared, sharedInput{index: len(r.inputs), area: *a, dtype: dtype, shape: shape})
	r.inputs = append(r.inputs, namedTensor{name: name})
	return true, nil
}

// decode returns the tensor of an input and the binary data after its own.
func (in *tensorJSON) decode(params map[string]any, binary []byte) (*tensor.Tensor, []byte, error) {
	dtype, err := parseDatatype(in.Datatype)
	if err != nil {
		return nil, nil, err
	}
	if in.Shape == nil {
		return nil, nil, errShape
	}
	for k := range params {
		if k != "binary_data_size" {
			return nil, nil, fmt.Errorf("unknown parameter %q", k)
		}
	}
	if _, ok := params["binary_data_size"]; ok {
		size, err := integer(params, "binary_data_size")
		if err != nil {
			return nil, nil, err
		}
		if in.Data != nil {
			return nil, nil, errors.New("both data and binary_data_size are given")
		}
		if size > uint64(len(binary)) {
			return nil, nil, fmt.Errorf("binary_data_size is %d, but %d bytes of binary data remain", size, len(binary))
		}
		t, err := decodeRaw(dtype, in.Shape, binary[:size])
		return t, binary[size:], err
	}
	if in.Data == nil {
		return nil, nil, errors.New("neither data nor binary_data_size is given")
	}
	dims, _, err := checkShape(in.Shape)
	if err != nil {
		return nil, nil, err
	}
	t, err := tensor.ParseJSON(in.Data, dtype, dims)
	if err != nil {
		return nil, nil, fmt.Errorf("data: %w", err)
	}
	return t, binary, nil
}

// encodeInfer returns the JSON of a response and the binary data that follows it.
func encodeInfer(r *response) (header []byte, binary [][]byte, err error) {
	b := []byte(`{"model_name":`)
	b = appendString(b, r.model)
	b = append(b, `,"model_version":`...)
	b = appendString(b, r.version)
	if r.id != "" {
		b = append(b, `,"id":`...)
		b = appendString(b, r.id)
	}
	b = append(b, `,"outputs":[`...)
	for i, o := range r.outputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, o.name)
		b = append(b, `,"datatype":"`+datatypeName(o.value.DType())+`","shape":[`...)
		for i, d := range o.value.Shape() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = append(b, ']')
		if a := o.into; a != nil {
			b = append(b, `,"parameters":{"shared_memory_region":`...)
			b = appendString(b, a.region)
			b = append(b, `,"shared_memory_byte_size":`...)
			b = strconv.AppendUint(b, a.size, 10)
			b = append(b, `,"shared_memory_offset":`...)
			b = strconv.AppendUint(b, a.offset, 10)
			b = append(b, "}}"...)
			continue
		}
		if o.binary {
			raw := encodeRaw(o.value)
			binary = append(binary, raw)
			b = append(b, `,"parameters":{"binary_data_size":`...)
			b = strconv.AppendInt(b, int64(len(raw)), 10)
			b = append(b, "}}"...)
			continue
		}
		flat, err := o.value.Reshape(o.value.Len())
		if err != nil {
			return nil, nil, err
		}
		if flat.DType() == tensor.TypeString {
			for i, s := range tensor.Of[string](flat) {
				if !utf8.ValidString(s) {
					return nil, nil, errorf(InvalidArgument, "element %d of output %q is not UTF-8, which JSON cannot hold: ask for binary_data", i, o.name)
				}
			}
		}
		data, err := flat.MarshalJSON()
		if err != nil {
			return nil, nil, err
		}
		b = append(b, `,"data":`...)
		b = append(b, data...)
		b = append(b, '}')
	}
	return append(b, "]}"...), binary, nil
}

func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return append(b, text...)
}

// messageJSON returns a message as Triton writes it over REST: with the fields' own names,
// all fields, and 64-bit integers as numbers.
func messageJSON(m proto.Message) any { return messageMap(m.ProtoReflect()) }

func messageMap(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			continue
		}
		out[string(f.Name())] = fieldValue(f, m.Get(f))
	}
	return out
}

func fieldValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		out := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out[k.String()] = singleValue(f.MapValue(), v)
			return true
		})
		return out
	case f.IsList():
		out := make([]any, v.List().Len())
		for i := range out {
			out[i] = singleValue(f, v.List().Get(i))
		}
		return out
	}
	return singleValue(f, v)
}

func singleValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return messageMap(v.Message())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return int32(v.Enum())
	}
	return v.Interface()
}
