"""Data sets with questions, judgements and answers: BEIR, SQuAD and ClapNQ forms."""
