package ort

import (
	"context"
	"fmt"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// emptySequence creates an OrtValue for an empty sequence. The C API has no function for
// it, so a model of one SequenceEmpty node creates it.
func (r *library) emptySequence(typ tensor.Type) (uintptr, error) {
	key := typ.String()
	s, ok := r.empty.Load(key)
	if !ok {
		m, err := emptyModel(typ)
		if err != nil {
			return 0, err
		}
		p := provider{name: "ort", ep: cpu}
		o, err := p.parse(&driver.Options{Threads: 1}, driver.Config{})
		if err != nil {
			return 0, err
		}
		made, err := r.newSession("", m, o)
		if err != nil {
			return 0, fmt.Errorf("make an empty %s: %w", typ, err)
		}
		if s, ok = r.empty.LoadOrStore(key, made); ok {
			made.Close()
		}
	}
	maker := s.(*session)
	out := []uintptr{0}
	st := &state{out: out, outName: maker.outName}
	if err := maker.run(context.Background(), st); err != nil {
		return 0, fmt.Errorf("make an empty %s: %w", typ, err)
	}
	return out[0], nil
}

func emptyModel(typ tensor.Type) (*onnx.Model, error) {
	b := onnx.NewModel("empty").Opset("", 15).IRVersion(8)
	b.OutputType("y", onnx.NewType(typ))
	if typ.Kind != tensor.KindSequence || typ.Of == nil || typ.Of.Kind != tensor.KindTensor {
		return nil, fmt.Errorf("ONNX Runtime cannot create an empty %s", typ)
	}
	b.Node("SequenceEmpty", nil, []string{"y"}, onnx.Attrs{"dtype": int64(typ.Of.Elem)})
	return b.Model()
}
