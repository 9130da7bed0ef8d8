# The lab by hand: make lab-up NODES=4, then make lab-shell or NODE=node2.
.PHONY: lab-up lab-down lab-shell
LAB = $(GO) run ./internal/lab/cmd/lab

lab-up: NODES ?= 4
lab-up: ## a Slurm cluster on this machine: NODES=4
	@./internal/lab/setup.sh
	@$(LAB) up -nodes $(NODES)

lab-down: ## take it down whole
	@$(LAB) down

lab-shell: ## a shell in it, on the controller or on NODE=node2
	@$(LAB) shell $(NODE)
