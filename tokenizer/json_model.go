package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// fileFields and modelFields are the fields of a tokenizer.json and of its model that are read.
// Others are not kept.
var (
	fileFields = []string{"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
		"post_processor", "decoder"}
	modelFields = []string{"type", "unk_token", "unk_id", "byte_fallback", "fuse_unk", "ignore_merges", "dropout",
		"continuing_subword_prefix", "end_of_word_suffix", "max_input_chars_per_word"}
)

// modelFile is the model of a tokenizer.json. Vocabularies and merges, which may have
// hundreds of thousands of entries, are not kept as trees.
type modelFile struct {
	object
	vocab     []vocabEntry
	pieces    []scoredPiece
	merges    []mergePair
	hasMerges bool
}

// tokenizerFile parses a tokenizer.json.
func (r *jsonReader) tokenizerFile() (map[string]any, *modelFile, error) {
	top := map[string]any{}
	var model *modelFile
	err := r.object(func(key string) (err error) {
		if key == "model" {
			model, err = r.model()
			return err
		}
		if !slices.Contains(fileFields, key) {
			return r.skip()
		}
		top[key], err = r.value()
		return err
	})
	if err == nil {
		err = r.end()
	}
	if err == nil && model == nil {
		err = errors.New("the file has no model")
	}
	return top, model, err
}

func (r *jsonReader) model() (*modelFile, error) {
	m := &modelFile{object: object{fields: map[string]any{}}}
	err := r.object(func(key string) (err error) {
		switch key {
		case "vocab":
			r.space()
			if strings.HasPrefix(r.s[r.pos:], "[") {
				m.pieces, err = r.scores()
			} else {
				m.vocab, err = r.vocabulary()
			}
			m.fields[key] = true
		case "merges":
			m.hasMerges = true
			m.merges, err = r.mergeList()
		default:
			if !slices.Contains(modelFields, key) {
				return r.skip()
			}
			m.fields[key], err = r.value()
		}
		return err
	})
	return m, err
}

func (r *jsonReader) vocabulary() ([]vocabEntry, error) {
	var list []vocabEntry
	err := r.object(func(key string) error {
		id, err := r.id()
		if err == nil {
			err = r.countToken(len(list), key)
		}
		list = append(list, vocabEntry{key, id})
		return err
	})
	return list, err
}

// countToken checks the limits of a vocabulary that has n tokens before this one.
func (r *jsonReader) countToken(n int, token string) error {
	if r.bytes += len(token); r.bytes > maxTokenBytes || n >= maxTokens {
		return r.fail(fmt.Sprintf("the vocabulary exceeds %d tokens or %d bytes", maxTokens, maxTokenBytes))
	}
	if !r.opening.take(2 * int(unsafe.Sizeof(vocabEntry{}))) { // in a list that grows
		return r.opening.err
	}
	return nil
}

func (r *jsonReader) scores() ([]scoredPiece, error) {
	list := []scoredPiece{}
	err := r.array(func() error {
		if err := r.want('['); err != nil {
			return err
		}
		r.space()
		token, err := r.string()
		if err != nil {
			return err
		}
		if err := r.want(','); err != nil {
			return err
		}
		score, err := r.float()
		if err != nil {
			return err
		}
		if err := r.countToken(len(list), token); err != nil {
			return err
		}
		list = append(list, scoredPiece{token, score})
		return r.want(']')
	})
	return list, err
}

func (r *jsonReader) mergeList() ([]mergePair, error) {
	var list []mergePair
	line := 0
	err := r.array(func() error {
		if line++; line > maxMerges {
			return r.fail(fmt.Sprintf("more than %d merges", maxMerges))
		}
		if !r.opening.take(2 * int(unsafe.Sizeof(mergePair{}))) {
			return r.opening.err
		}
		if r.take('[') {
			r.space()
			left, err := r.string()
			if err != nil {
				return err
			}
			if err := r.want(','); err != nil {
				return err
			}
			r.space()
			right, err := r.string()
			if err != nil {
				return err
			}
			list = append(list, mergePair{left, right})
			return r.want(']')
		}
		s, err := r.string()
		if err != nil {
			return err
		}
		if strings.HasPrefix(s, "#version") {
			return nil
		}
		left, right, ok := strings.Cut(s, " ")
		if !ok || strings.Contains(right, " ") {
			return fmt.Errorf("merge %d must be two tokens separated by a space, got %q", line, s)
		}
		list = append(list, mergePair{left, right})
		return nil
	})
	return list, err
}
