// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend/exports"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestImportsWaitForAFileOfAnother: where a VM has come to suspended to a file, a program that
// begins there is owed what it imports of one that is in the file.
func TestImportsWaitForAFileOfAnother(t *testing.T) {
	const channel = 2
	from, here := exports.New(1<<10), exports.New(1<<10)
	var maker, begins exports.Worker
	from.Receive(&maker, &handover.Message{
		Object: &handover.Object{Kind: handover.ObjectPool, Number: 3, Token: 5},
	}, nil)
	handle, _ := from.Claim(&maker, 3, 0)
	f := filed{suspend.New(suspend.Config{}), here}
	if err := f.TakeFile(); err != nil {
		t.Fatal(err)
	}
	if err := here.Load(from.State(), func(of int) bool { return of == 0 }); err != nil {
		t.Fatal(err)
	}
	here.Serves(&begins, channel)
	if _, status, owes := here.Owe(handle, channel, &begins); !owes || status != wire.StatusOk {
		t.Errorf("status %d, owes %t", status, owes)
	}
	here.Clear()
}
