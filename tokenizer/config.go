package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
)

// Config is what tokenizer_config.json and special_tokens_map.json say.
type Config struct {
	Class          string // tokenizer_class
	ModelMaxLength int    // 0 if it is missing or unlimited
	PaddingLeft    bool   // padding_side is "left"
	TruncateLeft   bool   // truncation_side is "left"
	CleanUpSpaces  bool   // clean_up_tokenization_spaces
	// ChatTemplate is chat_template, the one named "default" of several, or the file
	// chat_template.jinja.
	ChatTemplate string

	// Special tokens: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token and
	// mask_token.
	BOS, EOS, Unknown, Separator, Pad, Classifier, Mask string
}

// readConfig reads tokenizer_config.json, special_tokens_map.json and chat_template.jinja.
func (f *files) readConfig() error {
	f.raw = map[string]any{}
	special, err := f.readObject("special_tokens_map.json")
	if err != nil {
		return err
	}
	if raw, err := f.readObject("tokenizer_config.json"); err != nil {
		return err
	} else if raw != nil {
		f.raw = raw
	}
	c := &f.config
	c.Class, _ = f.raw["tokenizer_class"].(string)
	if n, ok := f.raw["model_max_length"].(float64); ok && n > 0 && n < math.MaxInt32 {
		c.ModelMaxLength = int(n)
	}
	c.PaddingLeft = f.raw["padding_side"] == "left"
	c.TruncateLeft = f.raw["truncation_side"] == "left"
	c.CleanUpSpaces = f.raw["clean_up_tokenization_spaces"] == true
	for name, to := range map[string]*string{"bos_token": &c.BOS, "eos_token": &c.EOS, "unk_token": &c.Unknown,
		"sep_token": &c.Separator, "pad_token": &c.Pad, "cls_token": &c.Classifier, "mask_token": &c.Mask} {
		*to = tokenText(f.raw[name])
		if s := tokenText(special[name]); s != "" {
			*to = s
		}
	}
	switch t := f.raw["chat_template"].(type) {
	case string:
		c.ChatTemplate = t
	case []any:
		for _, v := range t {
			if o, ok := v.(map[string]any); ok && o["name"] == "default" {
				c.ChatTemplate, _ = o["template"].(string)
			}
		}
	}
	if s, err := f.read("chat_template.jinja"); err == nil {
		c.ChatTemplate = s
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tokenText returns a token that is written as a string or as an object.
func tokenText(v any) string {
	if o, ok := v.(map[string]any); ok {
		v = o["content"]
	}
	s, _ := v.(string)
	return s
}

// readObject reads a JSON file that may be missing.
func (f *files) readObject(name string) (map[string]any, error) {
	data, err := f.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(data, f.opening)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must hold an object", name)
	}
	return o, nil
}

// override adds the tokens of added_tokens_decoder and added_tokens.json that the tokenizer
// does not have, and sets add_prefix_space of its pre-tokenizer.
func (f *files) override(p *parts) error {
	if b, ok := p.pre.(*byteLevelSplit); ok {
		if prefix, ok := f.raw["add_prefix_space"].(bool); ok {
			b.prefix = prefix
		}
	}
	list, ok := f.raw["added_tokens_decoder"].(map[string]any)
	if f.raw["added_tokens_decoder"] != nil && !ok {
		return errors.New("tokenizer_config.json: added_tokens_decoder must be an object")
	}
	for key, v := range list {
		id, err := strconv.ParseUint(key, 10, 31)
		fields, ok := v.(map[string]any)
		if err != nil || !ok || id > maxID {
			return fmt.Errorf("tokenizer_config.json: added token %q is invalid", key)
		}
		o := &object{fields: fields}
		flag := func(name string) bool { return o.has(name) && o.bool(name) }
		t := AddedToken{ID: int(id), Content: o.string("content"), SingleWord: flag("single_word"),
			LStrip: flag("lstrip"),
			RStrip: flag("rstrip"), Normalized: flag("normalized"), Special: flag("special")}
		if o.err != nil {
			return fmt.Errorf("tokenizer_config.json: added token %s: %w", key, o.err)
		}
		if err := p.addMissing(t); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	tokens, err := f.readObject("added_tokens.json")
	if err != nil {
		return err
	}
	for content, v := range tokens {
		id, ok := tokenID(v)
		if !ok {
			return fmt.Errorf("added_tokens.json: id of %q is invalid", content)
		}
		if err := p.addMissing(AddedToken{ID: int(id), Content: content, Normalized: true}); err != nil {
			return fmt.Errorf("added_tokens.json: %w", err)
		}
	}
	return nil
}

// addMissing adds a token that is neither added nor contradicts the vocabulary.
func (p *parts) addMissing(t AddedToken) error {
	if _, ok := p.added.byContent[t.Content]; ok || t.Content == "" {
		return nil
	}
	if id, ok := p.model.id(t.Content); ok && int(id) != t.ID {
		return fmt.Errorf("token %q has id %d in the vocabulary, want %d", t.Content, id, t.ID)
	}
	if s, ok := p.model.token(int32(t.ID)); ok && s != t.Content {
		return fmt.Errorf("id %d of token %q belongs to %q", t.ID, t.Content, s)
	}
	if old, ok := p.added.byID[int32(t.ID)]; ok {
		return fmt.Errorf("id %d of token %q belongs to %q", t.ID, t.Content, old.Content)
	}
	if t.Normalized {
		if err := p.added.normalize(int32(t.ID), t.Content, p.normalizer); err != nil {
			return err
		}
	}
	p.added.set(t)
	return nil
}
