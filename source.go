package onward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"weak"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
)

// source is the origin of a model: a file, bytes or a model in memory.
type source struct {
	file bool
	path string
	data []byte

	model  *onnx.Model
	opened bool                     // the session is open: use weak, which does not keep the model in memory
	weak   weak.Pointer[onnx.Model] // nil for a file and for bytes
}

// kept returns the source that a session keeps for [Session.SetProviders]. It keeps
// neither bytes nor a model alive.
func (src source) kept() source {
	k := source{file: src.file, path: src.path, opened: true}
	if src.model != nil {
		k.weak = weak.Make(src.model)
	}
	return k
}

// read reads the model for a session that tries the given providers. The model of a file is
// owned and may be mapped: close it.
func (src source) read(ctx context.Context, o *SessionOptions, configs []ProviderConfig, h *held) (
	*driver.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &driver.Model{Path: src.path, Model: src.model, Owned: src.file, Reserve: h.reserve}
	var err error
	switch {
	case src.file:
		if o.PrepackedWeights != nil {
			if m.Hash, err = hashFile(ctx, src.path); err != nil {
				return nil, err
			}
		}
		r := o.readOptions(configs)
		r.Reserve, r.Context = h.reserve, ctx
		m.Model, err = onnx.ReadFile(src.path, r)
	case src.opened:
		if m.Model = src.weak.Value(); m.Model == nil || m.Graph == nil {
			return nil, statusf(CodeNotImplemented, "the session does not keep its model; open a new session")
		}
	case src.model == nil && src.data != nil:
		if o.PrepackedWeights != nil {
			m.Hash, _ = hash(bytes.NewReader(src.data)) // reading from memory cannot fail
		}
		m.Model, err = onnx.Unmarshal(src.data, &onnx.ReadOptions{Reserve: h.reserve})
	}
	if err != nil {
		return nil, err
	}
	if m.Model == nil || m.Graph == nil {
		if m.Owned {
			m.Close()
		}
		return nil, errors.New("the model has no graph")
	}
	return m, nil
}

// readOptions returns how to read the model file of a session that tries the given
// providers. The file is mapped in two cases:
//
//   - all providers read the file themselves, so that no weights are taken from the
//     mapping
//   - MapWeights is set and the engines of all providers guard reads from a mapping
func (o *SessionOptions) readOptions(configs []ProviderConfig) *onnx.ReadOptions {
	r := &onnx.ReadOptions{MaxFileSize: o.Limits.MaxFileSize, StrictExternalData: o.StrictExternalData}
	reads, guards := true, true
	for _, c := range orDefaultProvider(configs) {
		t := driver.TraitsOf(driver.Lookup(c.Name))
		reads, guards = reads && t.ReadsFiles, guards && t.GuardsMapping
	}
	r.MapExternal = o.MapWeights && guards
	r.Map = reads || r.MapExternal
	return r
}

func hash(model io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, model)
	return string(h.Sum(nil)), err
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hash(contextReader{ctx, f})
}

// contextReader reads until its context is done.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
