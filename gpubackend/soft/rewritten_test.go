// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/managed"
	"github.com/paracuda/paracuda/gpubackend/soft/chip"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// TestRewrittenVariables executes nvcc's code as it is, and as a real GPU's driver gets it: after
// package managed has put addresses in place of managed variables.
func TestRewrittenVariables(t *testing.T) {
	image, err := os.ReadFile("../managed/testdata/golden/vars.fatbin")
	if err != nil {
		t.Fatal(err)
	}
	codes, err := managed.Open(image, chip.Architecture, nil)
	if err != nil {
		t.Fatal(err)
	}
	code := codes[len(codes)-1]
	if code.Form != "PTX" {
		t.Fatalf("%d codes, the last is %s", len(codes), code.Form)
	}
	for _, rewritten := range []bool{false, true} {
		d := newDevice(t, Options{})
		host := registeredPage(t, d)
		var m gpubackend.Module
		var result gpubackend.Result
		variables := map[string]uint64{}
		if rewritten {
			m, _, _, result = d.ModuleLoadData(code.Place(host), nil, nil, nil)
			ok(t, result)
			for _, v := range code.Variables {
				variables[v.Name] = host + v.Offset
				if v.Content != "" {
					from, size, result := d.ModuleGetGlobal(m, v.Content)
					ok(t, result)
					if size != v.Size || !d.Space().InWindow(from) {
						t.Errorf("content of %s: %d bytes at %#x", v.Name, size, from)
					}
					copy(space.Bytes(host+v.Offset, v.Size), read(t, d, from, size))
				}
			}
		} else {
			m, _, _, result = d.ModuleLoadManaged(image, nil, host, nil, nil)
			ok(t, result)
			for _, v := range code.Variables {
				variables[v.Name], _, result = d.ModuleGetGlobal(m, v.Name)
				ok(t, result)
			}
		}
		checkVariables(t, d, m, variables)
	}
}

// checkVariables checks what is in the variables of vars.cu, before and after its kernel has run.
func checkVariables(t *testing.T, d *Device, m gpubackend.Module, variables map[string]uint64) {
	t.Helper()
	double := func(addr uint64) float64 {
		return math.Float64frombits(binary.LittleEndian.Uint64(space.Bytes(addr, 8)))
	}
	table, numbers := variables["table"], variables["numbers"]
	if double(table) != 1.5 || double(table+8) != 2.5 || double(table+16) != 0 ||
		*wordAt(variables["counter"]) != 5 {
		t.Errorf("initial content: %v, %v, %d", double(table), double(table+8),
			*wordAt(variables["counter"]))
	}
	*wordAt(variables["counter"]) = 30
	space.Bytes(variables["flag"], 1)[0] = 4
	for i := range uint64(500) {
		*wordAt(numbers + 4*i) = uint32(i)
	}
	where := alloc(t, d, 8)
	start(t, d, getFunction(t, d, m, "change"), 1, 0, params(where))
	synchronize(t, d)
	if got := word(read(t, d, where, 8)); got != variables["counter"] {
		t.Errorf("counter is at %#x, the kernel says %#x", variables["counter"], got)
	}
	for i := range uint64(500) {
		want := uint32(i)
		if i == 0 {
			want = 30
		}
		if got := *wordAt(numbers + 4*i); got != want {
			t.Errorf("numbers[%d] is %d", i, got)
		}
	}
	plain, _, result := d.ModuleGetGlobal(m, "plain")
	ok(t, result)
	if got := binary.LittleEndian.Uint32(read(t, d, plain, 4)); got != 7 || double(table+24) != 7 {
		t.Errorf("plain %d, table[3] %v", got, double(table+24))
	}
}
