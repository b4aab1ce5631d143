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

func TestOthers(t *testing.T) {
	const a, b, c = "\n### A\n\na\n", "\n### B\n\n| 1 |\n", "\n### C\n\nc\n"
	section := "## New\n\nintroduction\n" + a + b + c
	for title, want := range map[string]string{"A": b + c, "B": a + c, "C": a + b, "D": a + b + c} {
		if got := Others(section, title); got != want {
			t.Errorf("Others(%q) = %q, want %q", title, got, want)
		}
	}
	if got := Others("## New\n\nintroduction\n", "A"); got != "" {
		t.Errorf("Others = %q, want none", got)
	}
}
