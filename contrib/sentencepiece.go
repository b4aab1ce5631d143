package contrib

import (
	"bytes"
	"fmt"
	"io/fs"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onward-ml/onward/tokenizer"
)

// memoryFile is a file system of one file of any name.
type memoryFile []byte

func (m memoryFile) Open(name string) (fs.File, error) {
	return openFile{bytes.NewReader(m), fileInfo{name, int64(len(m))}}, nil
}

type openFile struct {
	*bytes.Reader
	info fileInfo
}

func (f openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f openFile) Close() error               { return nil }

type fileInfo struct {
	name string
	size int64
}

func (i fileInfo) Name() string     { return i.name }
func (i fileInfo) Size() int64      { return i.size }
func (fileInfo) Mode() fs.FileMode  { return 0o444 }
func (fileInfo) ModTime() time.Time { return time.Time{} }
func (fileInfo) IsDir() bool        { return false }
func (fileInfo) Sys() any           { return nil }

// sentencePiece is a SentencePiece model and the ids of its begin and end of a sentence, −1 if
// it has none.
type sentencePiece struct {
	*tokenizer.Tokenizer
	bos, eos int64
}

func openSentencePiece(data []byte) (*sentencePiece, error) {
	t, err := tokenizer.OpenFS(memoryFile(data), "attribute.model", nil)
	if err != nil {
		return nil, fmt.Errorf("attribute model: %w", err)
	}
	p := &sentencePiece{Tokenizer: t}
	bos, eos := sentenceMarks(data)
	p.bos, p.eos = p.control(bos), p.control(eos)
	return p, nil
}

func (p *sentencePiece) control(token string) int64 {
	if id, ok := p.IDOf(token); ok {
		return id
	}
	return -1
}

// sentenceMarks returns the pieces that the TrainerSpec of a valid ModelProto names.
func sentenceMarks(model []byte) (bos, eos string) {
	bos, eos = "<s>", "</s>"
	eachField(model, 2, func(spec []byte) {
		eachField(spec, 46, func(v []byte) { bos = string(v) })
		eachField(spec, 47, func(v []byte) { eos = string(v) })
	})
	return bos, eos
}

// eachField calls f for each field of bytes with a number.
func eachField(message []byte, number protowire.Number, f func([]byte)) {
	for len(message) > 0 {
		k, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(k, kind, message[n:])
		if size < 0 {
			return
		}
		if k == number && kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(message[n:])
			f(v)
		}
		message = message[n+size:]
	}
}
