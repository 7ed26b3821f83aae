// SPDX-License-Identifier: Apache-2.0

package plain

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a b": "a b", "\u202e\x9b": "?\ufffd",
		"a\x1b[2J\tb\nc\xffé d": "a?[2J?b?c\ufffdé d",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
