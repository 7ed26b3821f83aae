// SPDX-License-Identifier: Apache-2.0

package hostfuncs

import "testing"

// TestNodesOfOneFunction: however many nodes call a function, there is one record of it for the
// driver.
func TestNodesOfOneFunction(t *testing.T) {
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	function, data := v.Node(1<<63|5, nil)
	if _, other := v.Node(1<<63|6, nil); other == data {
		t.Error("two functions are the same")
	}
	if _, again := v.Node(1<<63|5, nil); again != data {
		t.Error("a function has two records")
	}
	if got := Token(function, data); got != 1<<63|5 {
		t.Errorf("token %#x", got)
	}
	if got := Token(function+1, data); got != 0 {
		t.Errorf("token %#x of another's function", got)
	}
	if got := Token(function, 0); got != 0 {
		t.Errorf("token %#x of no data", got)
	}
}
