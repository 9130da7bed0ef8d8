package orchestrator

// TestPlan is the plan of the in-memory tests, for tests with real processes.
var TestPlan = testPlan
