package serve

import (
	"fmt"
	"slices"
	"strings"
)

// textRequest is the body of a request to a model folder, of any endpoint.
type textRequest struct {
	model       string
	inputs      []textInput
	single      bool     // the inputs are one text or pair, not a list
	texts       []string // documents, or sentences
	query       string
	ids         [][]int64
	keep        bool // cut off nothing: long texts are errors
	left        bool
	prompt      string
	plain       bool // do not normalize
	dimensions  int
	raw         bool
	withText    bool
	base64      bool
	top         int  // 0: all
	bare        bool // without special tokens
	withSpecial bool // in decoded texts
}

// readText reads a body, an object with some of the members. A name may have a colon and the form
// of the value after it. Texts have at most limit bytes.
func readText(j *jsonReader, required []string, members []string, limit int) (*textRequest, error) {
	q := new(textRequest)
	return q, q.object(j, required, members, limit)
}

// object reads an object with members, of which some are required.
func (q *textRequest) object(j *jsonReader, required []string, members []string, limit int) error {
	all := slices.Concat(required, members)
	names := make([]string, len(all))
	for i, name := range all {
		names[i], _, _ = strings.Cut(name, ":")
	}
	given := 0
	err := j.object(names, func(i int) error {
		if i < len(required) {
			given++ // no member is given twice
		}
		return q.member(j, all[i], limit)
	})
	if err == nil && given < len(required) {
		err = fmt.Errorf("failed to parse the request JSON: want the members %q", names[:len(required)])
	}
	return err
}

// member reads the value of a member.
func (q *textRequest) member(j *jsonReader, name string, limit int) (err error) {
	switch name {
	case "model":
		q.model, err = j.text(name, maxName)
	case "user", "encoding_format", "truncation_direction":
		var s string
		if s, err = j.text(name, maxName); err == nil {
			err = q.word(name, s)
		}
	case "prompt_name":
		q.prompt, err = j.text(name, maxName)
	case "query", "source_sentence":
		if j.next() != '"' {
			return j.wrong("a string")
		}
		q.query, err = j.text(name, limit)
	case "input", "inputs":
		q.inputs, q.single, err = j.textInputs(limit)
	case "inputs:sentences":
		if j.next() != '{' {
			return j.wrong("an object")
		}
		err = q.object(j, []string{"source_sentence", "sentences"}, nil, limit)
	case "parameters":
		err = q.object(j, nil, []string{"truncate", "truncation_direction", "prompt_name"}, limit)
	case "inputs:pairs":
		q.inputs, q.single, err = j.textPairs(limit)
	case "texts", "sentences":
		q.texts, err = j.texts(limit, false)
	case "documents":
		q.texts, err = j.texts(limit, true)
	case "ids":
		var list []textInput
		list, q.single, err = j.textInputs(0)
		for _, in := range list {
			if in.ids == nil {
				return fmt.Errorf("failed to parse the request JSON: ids holds a text, want ids of tokens")
			}
			q.ids = append(q.ids, in.ids)
		}
	case "dimensions", "top_n":
		var n uint64
		if n, err = j.unsigned(name); err == nil && n > 1<<20 {
			return fmt.Errorf("%s is %d, want at most %d", name, n, 1<<20)
		}
		if name == "dimensions" {
			q.dimensions = int(n)
		} else {
			q.top = int(n)
		}
	default:
		var on, null bool
		if on, null, err = j.flag(); err != nil || null {
			return err
		}
		switch name {
		case "truncate":
			q.keep = !on
		case "normalize":
			q.plain = !on
		case "raw_scores":
			q.raw = on
		case "return_text", "return_documents":
			q.withText = on
		case "add_special_tokens":
			q.bare = !on
		case "skip_special_tokens":
			q.withSpecial = !on
		}
	}
	return err
}

// word reads a member with a few values.
func (q *textRequest) word(name, s string) error {
	switch {
	case s == "" || name == "user":
	case name == "encoding_format" && (s == "float" || s == "base64"):
		q.base64 = s == "base64"
	case name == "truncation_direction" && (strings.EqualFold(s, "left") || strings.EqualFold(s, "right")):
		q.left = strings.EqualFold(s, "left")
	case name == "encoding_format":
		return fmt.Errorf("encoding_format is %s, want \"float\" or \"base64\"", quote(s))
	default:
		return fmt.Errorf("truncation_direction is %s, want \"left\" or \"right\"", quote(s))
	}
	return nil
}

// flag reads a bool or null.
func (r *jsonReader) flag() (on, null bool, err error) {
	switch {
	case r.literal("true"):
		return true, false, nil
	case r.literal("false"):
		return false, false, nil
	case r.null():
		return false, true, nil
	}
	return false, false, r.wrong("a bool")
}

// grownTexts returns a list of texts with room for another one, unless it has maxTexts.
func grownTexts[T any](r *jsonReader, l []T) ([]T, error) {
	if err := countTexts(len(l) + 1); err != nil {
		return nil, err
	}
	return grown(r.memory, l)
}

// countTexts returns an error for more than maxTexts texts.
func countTexts(n int) error {
	if n > maxTexts {
		return errorf(TooLarge, "the request has more than %d texts or lists of ids", maxTexts)
	}
	return nil
}

// textInputs reads a text, the ids of tokens, or a list of such. single says that it is no list.
func (r *jsonReader) textInputs(limit int) (l []textInput, single bool, err error) {
	if r.next() == '"' {
		s, err := r.text("text", limit)
		return []textInput{{text: s}}, true, err
	}
	if r.next() != '[' {
		return nil, false, r.wrong("a string or an array")
	}
	var flat []int64
	err = r.list(func() error {
		in := textInput{}
		switch c := r.next(); {
		case c >= '0' && c <= '9' && l == nil:
			n, err := r.unsigned("token")
			if err != nil {
				return err
			}
			if flat, err = grown(r.memory, flat); err == nil {
				flat = append(flat, int64(min(n, 1<<40)))
			}
			return err
		case flat != nil:
			return r.wrong("the id of a token")
		case c == '"':
			if in.text, err = r.text("text", limit); err != nil {
				return err
			}
		case c == '[':
			in.ids = []int64{}
			if err := r.list(func() error {
				n, err := r.unsigned("token")
				if err != nil {
					return err
				}
				if in.ids, err = grown(r.memory, in.ids); err == nil {
					in.ids = append(in.ids, int64(min(n, 1<<40)))
				}
				return err
			}); err != nil {
				return err
			}
		default:
			return r.wrong("a string or an array of ids of tokens")
		}
		if l, err = grownTexts(r, l); err == nil {
			l = append(l, in)
		}
		return err
	})
	if flat != nil {
		return []textInput{{ids: flat}}, true, err
	}
	return l, false, err
}

// textPairs reads a text, a pair of texts, or a list of arrays of one or two texts.
func (r *jsonReader) textPairs(limit int) (l []textInput, single bool, err error) {
	if r.next() == '"' {
		s, err := r.text("text", limit)
		return []textInput{{text: s}}, true, err
	}
	var flat []string
	err = r.list(func() error {
		if r.next() == '"' && l == nil {
			s, err := r.text("text", limit)
			if len(flat) == 2 {
				return fmt.Errorf("a pair has more than 2 texts")
			}
			flat = append(flat, s)
			return err
		}
		if r.next() != '[' || flat != nil {
			return r.wrong("an array of one or two texts")
		}
		part, err := r.texts(limit, false)
		if err != nil {
			return err
		}
		if n := len(part); n != 1 && n != 2 {
			return fmt.Errorf("input %d has %d texts, want 1 or 2", len(l), n)
		}
		if l, err = grownTexts(r, l); err == nil {
			l = append(l, pairOf(part))
		}
		return err
	})
	if flat != nil {
		return []textInput{pairOf(flat)}, true, err
	}
	return l, false, err
}

// pairOf returns one or two texts as an input.
func pairOf(texts []string) textInput {
	if len(texts) == 1 {
		return textInput{text: texts[0]}
	}
	return textInput{text: texts[0], second: texts[1], pair: true}
}

// texts reads an array of texts, or of objects with a member "text" if they are allowed.
func (r *jsonReader) texts(limit int, objects bool) (l []string, err error) {
	if r.next() != '[' {
		return nil, r.wrong("an array")
	}
	err = r.list(func() error {
		var s string
		switch c := r.next(); {
		case c == '"':
			if s, err = r.text("text", limit); err != nil {
				return err
			}
		case c == '{' && objects:
			if err := r.object([]string{"text"}, func(int) (err error) {
				s, err = r.text("text", limit)
				return err
			}); err != nil {
				return err
			}
		default:
			return r.wrong("a string")
		}
		if l, err = grownTexts(r, l); err == nil {
			l = append(l, s)
		}
		return err
	})
	return l, err
}
