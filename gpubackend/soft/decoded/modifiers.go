// SPDX-License-Identifier: Apache-2.0

package decoded

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// modifiers are the words of an opcode, taken one after the other by its
// decoder. What is left over isn't supported.
type modifiers struct {
	words []string
}

// has takes word if it is there.
func (m *modifiers) has(word string) bool {
	i := slices.Index(m.words, word)
	if i < 0 {
		return false
	}
	m.words = slices.Delete(m.words, i, i+1)
	return true
}

// oneOf takes the first of words that is there, or returns "".
func (m *modifiers) oneOf(words ...string) string {
	for i, word := range m.words {
		if slices.Contains(words, word) {
			m.words = slices.Delete(m.words, i, i+1)
			return word
		}
	}
	return ""
}

// typ takes the next type, or returns ptx.NoType.
func (m *modifiers) typ() ptx.Type {
	for i, word := range m.words {
		if t := ptx.TypeOf(word); t != ptx.NoType {
			m.words = slices.Delete(m.words, i, i+1)
			return t
		}
	}
	return ptx.NoType
}

// dropPrefix takes all words that begin with prefix.
func (m *modifiers) dropPrefix(prefix string) {
	m.words = slices.DeleteFunc(m.words,
		func(word string) bool { return strings.HasPrefix(word, prefix) })
}

// rest is an error if words are left.
func (m *modifiers) rest() error {
	if len(m.words) == 0 {
		return nil
	}
	return fmt.Errorf("modifier .%s not supported", m.words[0])
}

// round takes a rounding modifier; nearest is the default.
func (m *modifiers) round() softfloat.Rounding {
	switch m.oneOf("rn", "rz", "rm", "rp") {
	case "rz":
		return softfloat.Zero
	case "rm":
		return softfloat.Down
	case "rp":
		return softfloat.Up
	}
	return softfloat.Nearest
}
