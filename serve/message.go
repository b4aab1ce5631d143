package serve

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

func messageParameters(in map[string]*inference.InferParameter) (map[string]any, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[string]any, len(in))
	for k, p := range in {
		if len(k) > maxName {
			return nil, tooLong("name of a parameter", len(k), maxName)
		}
		if n := len(p.GetStringParam()); n > maxText {
			return nil, tooLong("value of parameter "+quote(k), n, maxText)
		}
		switch x := p.GetParameterChoice().(type) {
		case *inference.InferParameter_BoolParam:
			out[k] = x.BoolParam
		case *inference.InferParameter_Int64Param:
			out[k] = x.Int64Param
		case *inference.InferParameter_Uint64Param:
			out[k] = x.Uint64Param
		case *inference.InferParameter_DoubleParam:
			out[k] = x.DoubleParam
		case *inference.InferParameter_StringParam:
			out[k] = x.StringParam
		default:
			return nil, fmt.Errorf("parameter %.64q has no value", k)
		}
	}
	return out, nil
}

// decodeMessage decodes a request of gRPC.
func decodeMessage(m *inference.ModelInferRequest, memory *reservation) (*request, error) {
	if err := checkNames(m); err != nil {
		return nil, err
	}
	r := &request{model: m.ModelName, version: m.ModelVersion, id: m.Id}
	var err error
	if r.params, err = messageParameters(m.Parameters); err != nil {
		return nil, err
	}
	raw, used := len(m.RawInputContents) > 0, 0
	for i, in := range m.Inputs {
		if in == nil {
			return nil, fmt.Errorf("input %d is empty", i)
		}
		params, err := messageParameters(in.Parameters)
		shared := false
		if err == nil {
			shared, err = r.addShared(in.Name, in.Datatype, in.Shape, params, in.Contents != nil)
		}
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		if shared {
			continue
		}
		used++
		t, err := func() (*tensor.Tensor, error) {
			for k, v := range params {
				if k != "binary_data_size" || !raw { // KServe's client sends it with raw contents, too
					return nil, fmt.Errorf("unknown parameter %.64q", k)
				}
				if used <= len(m.RawInputContents) && v != int64(len(m.RawInputContents[used-1])) {
					return nil, fmt.Errorf("binary_data_size is %s, but its raw_input_contents have %d bytes", shown(v),
						len(m.RawInputContents[used-1]))
				}
			}
			dtype, err := parseDatatype(in.Datatype)
			if err != nil {
				return nil, err
			}
			size := 0
			if dtype == tensor.TypeString {
				for _, b := range in.Contents.GetBytesContents() {
					size += 4 + len(b)
				}
				if raw && used <= len(m.RawInputContents) {
					size += len(m.RawInputContents[used-1])
				}
			} else if dtype.Size() < 4 { // narrow converts the integers
				size = (len(in.Contents.GetIntContents()) + len(in.Contents.GetUintContents())) * dtype.Size()
			}
			if err := memory.grow(rawCost(dtype, size)); err != nil {
				return nil, err
			}
			if !raw {
				return decodeContents(dtype, in.Shape, in.Contents)
			}
			if in.Contents != nil {
				return nil, fmt.Errorf("contents must be empty if raw_input_contents is used")
			}
			if used > len(m.RawInputContents) {
				return nil, fmt.Errorf(
					"raw_input_contents has %d elements, want one for each input that is not in shared memory",
					len(m.RawInputContents))
			}
			return decodeRaw(dtype, in.Shape, m.RawInputContents[used-1])
		}()
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		r.inputs = append(r.inputs, namedTensor{in.Name, t})
	}
	if raw && used < len(m.RawInputContents) {
		return nil, fmt.Errorf(
			"expected %d raw input contents, one for each input that is not in shared memory, but got %d", used,
			len(m.RawInputContents))
	}
	for _, o := range m.Outputs {
		w := wanted{name: o.GetName()}
		params, err := messageParameters(o.GetParameters())
		if err == nil {
			err = w.set(params)
		}
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", w.name, err)
		}
		r.outputs = append(r.outputs, w)
	}
	return r, nil
}

// checkNames returns an error for names that are too long.
func checkNames(m *inference.ModelInferRequest) error {
	check := func(what, s string) error {
		if len(s) > maxName {
			return tooLong(what, len(s), maxName)
		}
		return nil
	}
	if len(m.Id) > maxID {
		return tooLong("id", len(m.Id), maxID)
	}
	err := errors.Join(check("model_name", m.ModelName), check("model_version", m.ModelVersion))
	for _, in := range m.Inputs {
		if err == nil {
			err = errors.Join(check("name of an input", in.GetName()), check("datatype", in.GetDatatype()))
		}
	}
	for _, o := range m.Outputs {
		if err == nil {
			err = check("name of an output", o.GetName())
		}
	}
	return err
}

// decodeContents decodes the typed contents of an input. The protocol sends 8 and 16-bit integers
// as 32-bit ones, and has no typed contents for FP16 and BF16.
func decodeContents(dtype tensor.DType, shape []int64, c *inference.InferTensorContents) (*tensor.Tensor, error) {
	dims, n, err := checkShape(shape)
	if err != nil {
		return nil, err
	}
	lens := []struct {
		name string
		n    int
	}{{"bool_contents", len(c.GetBoolContents())}, {"int_contents", len(c.GetIntContents())},
		{"int64_contents", len(c.GetInt64Contents())},
		{"uint_contents", len(c.GetUintContents())}, {"uint64_contents", len(c.GetUint64Contents())},
		{"fp32_contents", len(c.GetFp32Contents())},
		{"fp64_contents", len(c.GetFp64Contents())}, {"bytes_contents", len(c.GetBytesContents())}}
	field := map[tensor.DType]string{tensor.TypeBool: "bool_contents", tensor.TypeInt8: "int_contents",
		tensor.TypeInt16: "int_contents", tensor.TypeInt32: "int_contents",
		tensor.TypeInt64: "int64_contents", tensor.TypeUint8: "uint_contents", tensor.TypeUint16: "uint_contents",
		tensor.TypeUint32: "uint_contents",
		tensor.TypeUint64: "uint64_contents", tensor.TypeFloat32: "fp32_contents", tensor.TypeFloat64: "fp64_contents",
		tensor.TypeString: "bytes_contents"}[dtype]
	if field == "" {
		return nil, fmt.Errorf("%s has no typed contents, want raw_input_contents", datatypeName(dtype))
	}
	for _, l := range lens {
		switch {
		case l.name == field && l.n != n:
			return nil, fmt.Errorf("%s has %d elements, but shape %v has %d", field, l.n, shape, n)
		case l.name != field && l.n > 0:
			return nil, fmt.Errorf("%s is set, but datatype %s is sent in %s", l.name, datatypeName(dtype), field)
		}
	}
	switch dtype {
	case tensor.TypeBool:
		return tensor.New(c.GetBoolContents(), dims...)
	case tensor.TypeInt8:
		return narrow[int8](c.GetIntContents(), dims)
	case tensor.TypeInt16:
		return narrow[int16](c.GetIntContents(), dims)
	case tensor.TypeInt32:
		return tensor.New(c.GetIntContents(), dims...)
	case tensor.TypeInt64:
		return tensor.New(c.GetInt64Contents(), dims...)
	case tensor.TypeUint8:
		return narrow[uint8](c.GetUintContents(), dims)
	case tensor.TypeUint16:
		return narrow[uint16](c.GetUintContents(), dims)
	case tensor.TypeUint32:
		return tensor.New(c.GetUintContents(), dims...)
	case tensor.TypeUint64:
		return tensor.New(c.GetUint64Contents(), dims...)
	case tensor.TypeFloat32:
		return tensor.New(c.GetFp32Contents(), dims...)
	case tensor.TypeFloat64:
		return tensor.New(c.GetFp64Contents(), dims...)
	}
	elems := make([]string, n)
	for i, b := range c.GetBytesContents() {
		elems[i] = string(b)
	}
	return tensor.New(elems, dims...)
}

// narrow converts integers to a smaller type. It fails for those out of range.
func narrow[T int8 | int16 | uint8 | uint16, S int32 | uint32](src []S, dims []int) (*tensor.Tensor, error) {
	dst := make([]T, len(src))
	for i, x := range src {
		if dst[i] = T(x); S(dst[i]) != x {
			return nil, fmt.Errorf("element %d is %d, which is out of range", i, x)
		}
	}
	return tensor.New(dst, dims...)
}

func encodeMessage(r *response) *inference.ModelInferResponse {
	m := &inference.ModelInferResponse{ModelName: r.model, ModelVersion: r.version, Id: r.id}
	for _, o := range r.outputs {
		x := &inference.ModelInferResponse_InferOutputTensor{Name: o.name, Datatype: datatypeName(o.value.DType()),
			Shape: shape64(o.value.Shape())}
		var raw []byte // empty for shared memory: clients count the elements
		if a := o.into; a != nil {
			integer := func(n uint64) *inference.InferParameter {
				return &inference.InferParameter{
					ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(n)}}
			}
			x.Parameters = map[string]*inference.InferParameter{
				"shared_memory_region": {
					ParameterChoice: &inference.InferParameter_StringParam{StringParam: a.region}},
				"shared_memory_byte_size": integer(a.size), "shared_memory_offset": integer(a.offset)}
		} else {
			raw = encodeRaw(o.value)
		}
		m.Outputs = append(m.Outputs, x)
		m.RawOutputContents = append(m.RawOutputContents, raw)
	}
	return m
}
