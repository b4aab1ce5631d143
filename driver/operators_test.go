package driver

import "testing"

func TestRegisterOperators(t *testing.T) {
	before := len(RegisteredOperators())
	RegisterOperators(CustomOperator{Domain: "driver.test", Name: "A"},
		CustomOperator{Domain: "driver.test", Name: "A", Since: 2})
	if n := len(RegisteredOperators()); n != before+2 {
		t.Errorf("%d operators, want %d", n, before+2)
	}
	defer func() {
		if recover() == nil {
			t.Error("the same version was registered twice")
		}
	}()
	RegisterOperators(CustomOperator{Domain: "driver.test", Name: "A", Since: 1})
}
