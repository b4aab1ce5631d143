package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/onward-ml/onward/tensor"
)

var (
	inferMembers  = []string{"model_name", "model_version", "id", "parameters", "inputs", "outputs"}
	inputMembers  = []string{"name", "shape", "datatype", "parameters", "data"}
	outputMembers = []string{"name", "parameters"}
)

// decodeInfer decodes the JSON of an inference request and the binary data after it (Triton's
// binary tensor data extension). What it allocates is reserved in memory, unless that is nil.
func decodeInfer(ctx context.Context, header, binary []byte, memory *reservation) (*request, error) {
	r := new(request)
	err := readJSON(ctx, header, memory, func(j *jsonReader) error {
		return j.object(inferMembers, func(i int) (err error) {
			switch inferMembers[i] {
			case "model_name": // KServe's client repeats the model of the path
				r.model, err = j.text("model_name", maxName)
			case "model_version":
				r.version, err = j.text("model_version", maxName)
			case "id":
				r.id, err = j.text("id", maxID)
			case "parameters":
				r.params, err = j.parameters()
			case "inputs":
				err = j.list(func() error { return j.input(r, &binary) })
			case "outputs":
				err = j.list(func() error { return j.output(r) })
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if len(binary) > 0 {
		return nil, fmt.Errorf("the request has %d bytes after the binary data of its inputs", len(binary))
	}
	if all, _ := r.params["binary_data_output"].(bool); all {
		for i := range r.outputs {
			if !r.outputs[i].binarySet {
				r.outputs[i].binary = true
			}
		}
	}
	return r, nil
}

// tensorJSON is an input as it is given in JSON.
type tensorJSON struct {
	name, datatype string
	shape          []int64
	params         map[string]any
	data           []byte // nil: not given
	longest        int    // string of data
}

// input reads an input. It takes the input's binary data from the beginning of binary.
func (j *jsonReader) input(r *request, binary *[]byte) error {
	const cost = 512 // bytes of an input and its tensor, without elements
	if err := j.memory.grow(cost); err != nil {
		return err
	}
	var in tensorJSON
	if !j.null() {
		if err := j.object(inputMembers, func(i int) (err error) {
			switch inputMembers[i] {
			case "name":
				in.name, err = j.text("name of an input", maxName)
			case "shape":
				in.shape, err = j.ints("shape", tensor.MaxRank)
			case "datatype":
				in.datatype, err = j.text("datatype", maxName)
			case "parameters":
				in.params, err = j.parameters()
			case "data":
				in.data, in.longest, err = j.value()
			}
			return err
		}); err != nil {
			return err
		}
	}
	shared, err := r.addShared(in.name, in.datatype, in.shape, in.params, in.data != nil)
	if shared && in.shape == nil {
		err = errShape
	}
	var t *tensor.Tensor
	if err == nil && !shared {
		if t, *binary, err = in.decode(j.ctx, *binary, j.memory); err == nil {
			if r.inputs, err = grown(j.memory, r.inputs); err == nil {
				r.inputs = append(r.inputs, namedTensor{in.name, t})
			}
		}
	}
	if err != nil {
		return fmt.Errorf("input %s: %w", quote(in.name), err)
	}
	return nil
}

// output reads a wanted output.
func (j *jsonReader) output(r *request) (err error) {
	var w wanted
	var params map[string]any
	if !j.null() {
		if err := j.object(outputMembers, func(i int) (err error) {
			if outputMembers[i] == "name" {
				w.name, err = j.text("name of an output", maxName)
			} else {
				params, err = j.parameters()
			}
			return err
		}); err != nil {
			return err
		}
	}
	if err := w.set(params); err != nil {
		return fmt.Errorf("output %s: %w", quote(w.name), err)
	}
	if r.outputs, err = grown(j.memory, r.outputs); err == nil {
		r.outputs = append(r.outputs, w)
	}
	return err
}

// set reads the parameters of a wanted output.
func (w *wanted) set(params map[string]any) error {
	for k, v := range params {
		switch k {
		case "binary_data":
			b, ok := v.(bool)
			if !ok {
				return fmt.Errorf("parameter %q is %s, want a bool", k, shown(v))
			}
			w.binary, w.binarySet = b, true
		case "classification":
			n, err := integer(params, k)
			if err != nil {
				return err
			}
			w.classes = int(min(n, math.MaxInt32))
		case "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size":
		default:
			return fmt.Errorf("unknown parameter %s", quote(k))
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
			return false, fmt.Errorf("unknown parameter %s", quote(k))
		}
	}
	r.shared = append(r.shared, sharedInput{index: len(r.inputs), area: *a, dtype: dtype, shape: shape})
	r.inputs = append(r.inputs, namedTensor{name: name})
	return true, nil
}

// decode returns the tensor of an input and the binary data after its own.
func (in *tensorJSON) decode(ctx context.Context, binary []byte, memory *reservation) (*tensor.Tensor, []byte, error) {
	dtype, err := parseDatatype(in.datatype)
	if err != nil {
		return nil, nil, err
	}
	if in.shape == nil {
		return nil, nil, errShape
	}
	for k := range in.params {
		if k != "binary_data_size" {
			return nil, nil, fmt.Errorf("unknown parameter %s", quote(k))
		}
	}
	if _, ok := in.params["binary_data_size"]; ok {
		size, err := integer(in.params, "binary_data_size")
		if err != nil {
			return nil, nil, err
		}
		if in.data != nil {
			return nil, nil, errors.New("both data and binary_data_size are given")
		}
		if size > uint64(len(binary)) {
			return nil, nil, fmt.Errorf("binary_data_size is %d, but %d bytes of binary data remain", size, len(binary))
		}
		if err := memory.grow(rawCost(dtype, int(size))); err != nil {
			return nil, nil, err
		}
		t, err := decodeRaw(dtype, in.shape, binary[:size])
		return t, binary[size:], err
	}
	if in.data == nil {
		return nil, nil, errors.New("neither data nor binary_data_size is given")
	}
	dims, _, err := checkShape(in.shape)
	if err != nil {
		return nil, nil, err
	}
	// The elements are kept one by one until the tensor is made. The decoder holds a string in a
	// buffer of up to twice its length, those that it outgrew, and two copies.
	const element, copies = 80, 6
	elements := int64(bytes.Count(in.data, []byte{','})) + 1
	cost := element*elements + int64(len(in.data)) + copies*int64(in.longest)
	if err := memory.grow(cost); err != nil {
		return nil, nil, err
	}
	t, err := tensor.ParseJSONContext(ctx, in.data, dtype, dims)
	if err != nil {
		return nil, nil, fmt.Errorf("data: %w", err)
	}
	kept := int64(t.Len()) * int64(unsafe.Sizeof(""))
	if dtype != tensor.TypeString {
		kept = int64(len(t.Bytes()))
	} else {
		kept += int64(len(in.data))
	}
	memory.shrink(cost - kept)
	return t, binary, nil
}

// encodeInfer returns the JSON of a response and the binary data that follows it.
func encodeInfer(r *response) (header []byte, binary [][]byte, err error) {
	b := make([]byte, 0, r.textCost())
	b = append(b, `{"model_name":`...)
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
		b = append(b, `,"data":[`...)
		if b, err = appendElements(b, o.value); err != nil {
			return nil, nil, fmt.Errorf("output %q: %w", o.name, err)
		}
		b = append(b, "]}"...)
	}
	return append(b, "]}"...), binary, nil
}

// appendElements appends the elements of a tensor, separated by commas. It encodes a part at a
// time, which takes little memory besides b.
func appendElements(b []byte, t *tensor.Tensor) ([]byte, error) {
	flat, err := t.Reshape(t.Len())
	if err != nil {
		return nil, err
	}
	if t.DType() == tensor.TypeString {
		for i, s := range tensor.MustData[string](flat) {
			if !utf8.ValidString(s) {
				return nil, errorf(InvalidArgument,
					"element %d is not UTF-8, which JSON cannot hold: ask for binary_data", i)
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, s)
		}
		return b, nil
	}
	const part = 4096
	for i := 0; i < flat.Len(); i += part {
		x, err := rows(flat, i, min(part, flat.Len()-i))
		if err != nil {
			return nil, err
		}
		text, err := x.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, text[1:len(text)-1]...) // without brackets
	}
	return b, nil
}

func appendString(b []byte, s string) []byte {
	const part = 64 << 10
	b = append(b, '"')
	for len(s) > 0 {
		n := min(len(s), part)
		for n < len(s) && n > part-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		text, err := json.Marshal(strings.ToValidUTF8(s[:n], "\uFFFD"))
		if err != nil {
			panic(err) // strings have a JSON form
		}
		b, s = append(b, text[1:len(text)-1]...), s[n:]
	}
	return append(b, '"')
}

// stringSize returns the most bytes that a string takes in JSON: control characters, '<' and others
// that encoding/json escapes take six.
func stringSize(s string) int64 {
	n := len(`"",`)
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			n += 3 // U+2028 and U+2029, of three bytes, become six, and a byte that is not UTF-8 U+FFFD
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f:
			n += 6
		case c == '"' || c == '\\':
			n += 2
		default:
			n++
		}
	}
	return int64(n)
}

// numberSize returns the most bytes that a number or a bool takes in JSON, with a comma.
func numberSize(t tensor.DType) int64 {
	switch {
	case t == tensor.TypeFloat64:
		return int64(len("-2.2250738585072014e-308,"))
	case t.IsFloat():
		return int64(len("-1.17549435e-38,"))
	case t.Size() == 8:
		return int64(len("-9223372036854775808,"))
	case t.Size() == 4:
		return int64(len("-2147483648,"))
	}
	return int64(len("-32768,"))
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

// textCost returns the most bytes of the JSON that encodeInfer allocates.
func (r *response) textCost() int64 {
	n := 512 + stringSize(r.model) + stringSize(r.id)
	for _, o := range r.outputs {
		n += 512 + stringSize(o.name) + int64(o.value.Rank()*len("-9223372036854775808,"))
		switch {
		case o.into != nil:
			n += stringSize(o.into.region)
		case o.binary:
		case o.value.DType() == tensor.TypeString:
			for _, s := range tensor.MustData[string](o.value) {
				n += stringSize(s)
			}
		default:
			n += numberSize(o.value.DType()) * int64(o.value.Len())
		}
	}
	return n
}

// cost returns the most that encodeInfer allocates.
func (r *response) cost() int64 {
	n := r.textCost()
	for _, o := range r.outputs {
		if o.binary && o.value.DType() == tensor.TypeString {
			n += rawSize(o.value)
		}
	}
	return n
}
