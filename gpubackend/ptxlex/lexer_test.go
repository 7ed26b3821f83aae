// SPDX-License-Identifier: Apache-2.0

package ptxlex

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
)

// allTokens returns the tokens of text; the last one is EOF.
func allTokens(text string) ([]Token, error) {
	var tokens []Token
	for lx := New(text); ; {
		t, err := lx.Next()
		if err != nil {
			return nil, err
		}
		if tokens = append(tokens, t); t.Kind == EOF {
			return tokens, nil
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	text := "ld.shared::cta.v2 %r1, [x_1+0x10]; // .managed\n/* a\n" +
		"b */ \"s;\\\"\" 0f3F800000 1.5e-3 -7U"
	want := []Token{
		{Word, "ld", 0, 1}, {Dot, "shared::cta", 0, 1}, {Dot, "v2", 0, 1}, {Word, "%r1", 0, 1},
		{Punct, ",", 0, 1},
		{Punct, "[", 0, 1}, {Word, "x_1", 0, 1}, {Punct, "+", 0, 1}, {Int, "0x10", 16, 1},
		{Punct, "]", 0, 1},
		{Punct, ";", 0, 1}, {String, `s;\"`, 0, 3}, {Float32, "0f3F800000", 0x3f800000, 3},
		{Float, "1.5e-3", 0x3f589374bc6a7efa, 3}, {Punct, "-", 0, 3}, {Int, "7U", 7, 3},
		{EOF, "", 0, 3},
	}
	got, err := allTokens(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if i >= len(got) || got[i] != w {
			t.Fatalf("token %d of %v: want %+v", i, got, w)
		}
	}
	lx := New(text)
	for _, w := range want[:len(want)-1] {
		if _, err := lx.Next(); err != nil ||
			w.Kind != String && !strings.HasSuffix(text[:lx.End()], w.Text) {
			t.Errorf("%v: ends at %d, error %v", w, lx.End(), err)
		}
	}
}

func TestNoTokens(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"/* a", "\n\"a", "0f1", "0x", "1_0", "99999999999999999999"} {
		_, err := allTokens(text)
		var at *Error
		if !errors.As(err, &at) || at.Line < 1 || at.Line > 2 {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// TestLongTokens: tokens that are too long are refused with a short message.
func TestLongTokens(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", maxToken)
	for _, text := range []string{"a" + long, "." + long + "1", long + "1", "\"" + long + "1\"",
		long + "1.5"} {
		if _, err := allTokens(text); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.10s: accepted, or a long message", text)
		}
	}
	if _, err := allTokens("a" + long[1:]); err != nil {
		t.Error(err)
	}
}

// blank is what may lie before a token.
var blank = regexp.MustCompile(`^([ \t\r\n\f\v]|//[^\n]*(\n|$)|/\*([^*]|\*+[^*/])*\*+/)*$`)

// source is how a token stands in the text.
func (t Token) source() string {
	switch t.Kind {
	case Dot:
		return "." + t.Text
	case String:
		return `"` + t.Text + `"`
	}
	return t.Text
}

// FuzzTokens: tokens stand in the text one after another, with blanks and comments between them and
// nothing else, up to the text's end or what is wrong in it. Each tells its line, and a number its
// value.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{
		".visible .entry k() { mov.u64 %rd1, x; }",
		"// a\n/* b\n*/\t.shared::cta \"a\\\"\n\" 0x1F",
		"\"a\\\nb\" 017 0b101 9U 0f3F800000 0d3FF0000000000000 1.5e-3",
		"/* *", "\"", "0x", "a.b..c",
		"/**/a/***/b / * .// c", ".::a a::b 1e+5+6",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for lx, begin := New(text), 0; ; begin = lx.End() {
			token, err := lx.Next()
			if err != nil {
				checkError(t, err, text)
				return
			}
			piece := text[begin:lx.End()]
			before, ends := strings.CutSuffix(piece, token.source())
			if !ends || !blank.MatchString(before) {
				t.Fatalf("%+v was made of %q", token, piece)
			}
			if line := 1 + strings.Count(text[:lx.End()], "\n"); token.Line != line {
				t.Fatalf("%+v lies in line %d", token, line)
			}
			if token.Kind == EOF {
				if lx.End() != len(text) {
					t.Fatalf("the end after %d bytes of %d", lx.End(), len(text))
				}
				return
			}
			if token.Text == "" && token.Kind != String {
				t.Fatalf("%+v has no text", token)
			}
			checkValue(t, token)
		}
	})
}

func checkError(t *testing.T, err error, text string) {
	t.Helper()
	var at *Error
	if !errors.As(err, &at) || at.Line < 1 || at.Line > 1+strings.Count(text, "\n") {
		t.Errorf("error %v in a text of %d lines", err, 1+strings.Count(text, "\n"))
	}
}

// checkValue compares a number's value with what another package reads in it.
func checkValue(t *testing.T, token Token) {
	t.Helper()
	switch token.Kind {
	case Int:
		want, ok := new(big.Int).SetString(strings.TrimRight(token.Text, "uU"), 0)
		if !ok || !want.IsUint64() || want.Uint64() != token.Value {
			t.Errorf("%+v, want %v", token, want)
		}
	case Float:
		var want float64
		n, err := fmt.Sscan(token.Text, &want)
		if bits := math.Float64bits(want); !strings.HasPrefix(token.Text, "0d") &&
			!strings.HasPrefix(token.Text, "0D") && (n != 1 || err != nil || token.Value != bits) {
			t.Errorf("%+v, want %#x, %v", token, bits, err)
		}
	case Float32:
		if want := fmt.Sprintf("%08x", token.Value); strings.ToLower(token.Text[2:]) != want {
			t.Errorf("%+v, want %s", token, want)
		}
	}
}
