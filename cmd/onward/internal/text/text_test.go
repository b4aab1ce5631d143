package text

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{"plain ü 数": "plain ü 数", "a\tb\nc": "a\tb\nc", "\x1b[0m": `\x1b[0m`,
		"\u202e": `\u202e`, "\xff": `\xff`, "\x00": `\x00`} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Name("a\tb\nc"); got != `a\tb\nc` {
		t.Errorf("Name: %q", got)
	}
	if got := Indent("a\n\x1bb\nc", "  "); got != "a\n  \\x1bb\n  c" {
		t.Errorf("Indent: %q", got)
	}
}

func TestWrap(t *testing.T) {
	if got, want := Wrap("one two  three fourteen 5", 7), "one two\nthree\nfourteen\n5"; got != want {
		t.Errorf("Wrap: %q, want %q", got, want)
	}
}

func TestJSONEscapes(t *testing.T) {
	const name = "ü\u202e\x1b\U000e0041\"<>"
	var b bytes.Buffer
	if err := JSON(&b, name); err != nil {
		t.Fatal(err)
	}
	if want := `"ü\u202e\u001b\udb40\udc41\"<>"` + "\n"; b.String() != want {
		t.Errorf("got %s, want %s", &b, want)
	}
	var back string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != name {
		t.Errorf("read back as %q, %v", back, err)
	}
}
