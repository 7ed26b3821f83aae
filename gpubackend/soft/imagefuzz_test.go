// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"os"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// FuzzLoad loads anything as an image, as a guest could: it is unpacked, parsed, compiled, linked.
// Nothing of it is left when it is refused or unloaded.
func FuzzLoad(f *testing.F) {
	fatbin, err := os.ReadFile("../fatbin/testdata/golden/tiny.fatbin")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(fatbin)
	f.Add(smallPTX(f))
	f.Add([]byte(accessing))
	f.Add([]byte(whereKernel))
	f.Fuzz(func(t *testing.T, image []byte) {
		d := newDevice(t, Options{Memory: 64 << 20})
		defer d.Close()
		log := make([]byte, 256)
		m, _, _, result := d.ModuleLoadData(image, nil, log, log)
		if result == gpubackend.Success {
			ok(t, d.ModuleUnload(m))
		}
		ok(t, d.DevicePrimaryCtxReset(0)) // ends the heap, which code that uses it has made
		ok(t, d.ContextQuery())
		if free, total, result := d.MemGetInfo(); free != total || result != gpubackend.Success {
			t.Errorf("%d of %d bytes free, result %d", free, total, result)
		}
		if d.scheduler.Pending() != 0 {
			t.Errorf("%d tasks are left", d.scheduler.Pending())
		}
	})
}
