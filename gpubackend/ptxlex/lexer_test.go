// SPDX-License-Identifier: Apache-2.0

package ptxlex

import (
	"errors"
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

func FuzzTokens(f *testing.F) {
	f.Add(".visible .entry k() { mov.u64 %rd1, x; }")
	f.Fuzz(func(t *testing.T, text string) {
		if tokens, err := allTokens(text); err == nil && tokens[len(tokens)-1].Kind != EOF {
			t.Error("no end")
		}
	})
}
