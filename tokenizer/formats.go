package tokenizer

import "errors"

func (f *files) loadTiktoken(p *parts, name, data string, opts *Options) error {
	return errors.New("todo")
}
func (f *files) loadSentencePiece(p *parts, data []byte) error     { return errors.New("todo") }
func (f *files) loadVocabText(p *parts, data string) error         { return errors.New("todo") }
func (f *files) loadVocabMerges(p *parts, name, data string) error { return errors.New("todo") }
