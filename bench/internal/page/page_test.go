package page

import "testing"

func TestReplace(t *testing.T) {
	const heading, section = "## New", "## New\n\nnew\n"
	for _, c := range []struct{ page, next, want string }{
		{"# P\n\n## A\n\na\n", "", "# P\n\n## A\n\na\n\n" + section},
		{"# P\n\n## New\n\nold\n\n## B\n\nb\n", "", "# P\n\n" + section + "\n## B\n\nb\n"},
		{"# P\n\n## A\n\n## New\n\nold\n\n| 1 |\n", "", "# P\n\n## A\n\n" + section},
		{"# P\n\n## A\n\na\n", "## A", "# P\n\n" + section + "\n## A\n\na\n"},
		{"# P\n\n## A\n\n## New\n\nold\n", "## A", "# P\n\n## A\n\n" + section},
		{"# P\n", "## A", "# P\n\n" + section},
		{"", "## A", "\n\n" + section},
	} {
		got := Replace(c.page, heading, section, c.next)
		if got != c.want {
			t.Errorf("Replace(%q, before %q) = %q, want %q", c.page, c.next, got, c.want)
		}
		if s := Section(got, heading); s != section {
			t.Errorf("Section(%q) = %q", got, s)
		}
	}
	if s := Section("# P\n\n## A\n", heading); s != "" {
		t.Errorf("Section = %q, want none", s)
	}
}

func TestParts(t *testing.T) {
	const a, b, inner = "### A\n\na\n", "### B\n\n| 1 |\n", "### C\n\nc\n\n#### D\n\nd\n"
	section := "## New\n\nintroduction\n\n" + a + "\n" + b + "\n" + inner
	p := Divide(section, "### ")
	if got, want := p.String(), a+"\n"+b+"\n"+inner; got != want {
		t.Errorf("the parts are %q, want %q", got, want)
	}
	if got := Divide(p.Text("C"), "#### ").Text("D"); got != "d" {
		t.Errorf("part D is %q", got)
	}
	p.Set("B", "new\n")
	p.Set("E", "\ne")
	if got, want := p.String(), a+"\n### B\n\nnew\n\n"+inner+"\n### E\n\ne\n"; got != want {
		t.Errorf("the parts are %q, want %q", got, want)
	}
	if got := Divide("## New\n\nintroduction\n", "### "); got.String() != "" || got.Text("A") != "" {
		t.Errorf("parts of a text without headings: %q", got)
	}
}
