// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }
