// SPDX-License-Identifier: Apache-2.0

package handles

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

func TestTable(t *testing.T) {
	table := New()
	a, b := table.Add("text"), table.Add(7)
	if a < first || b == a {
		t.Fatalf("handles %d and %d", a, b)
	}
	if s, ok := Find[string](table, a); !ok || s != "text" {
		t.Errorf("found %q, %v", s, ok)
	}
	if _, ok := Find[int](table, a); ok {
		t.Error("found under another type")
	}
	if s, r := Of[string](table, a, gpubackend.NotFound); r != gpubackend.Success || s != "text" {
		t.Errorf("%q is there with result %d", s, r)
	}
	if n, r := Of[int](table, a, gpubackend.NotFound); r != gpubackend.NotFound || n != 0 {
		t.Errorf("%d is there under another type with result %d", n, r)
	}
	if n := table.Next(); n == a || n == b {
		t.Errorf("number %d is in use", n)
	} else if _, ok := Find[any](table, n); ok {
		t.Error("a number names something")
	}
	table.Remove(a)
	if _, ok := Find[string](table, a); ok || table.Len() != 1 {
		t.Errorf("removed, but %d are left", table.Len())
	}
	if c := table.Add(1); c == a {
		t.Error("a handle came back")
	}
	table.Clear()
	for handle := range table.All() {
		t.Errorf("%d is left", handle)
	}
}

func TestRemoveWhileYielded(t *testing.T) {
	table := New()
	for i := range 100 {
		table.Add(i)
	}
	for handle, object := range table.All() {
		if object.(int)%2 == 0 {
			table.Remove(handle)
		}
	}
	if table.Len() != 50 {
		t.Errorf("%d are left", table.Len())
	}
}
